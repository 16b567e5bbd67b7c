"""Spark's JVM: the only room that names Py4J and the private parts of PySpark.

A session of Spark Connect has no JVM. So each function here is exactly what a Connect session
cannot do in this way; whatever is not here needs only Spark's public interface.

- :mod:`.objects`: objects of the JVM's, sequences of Scala's, errors
- :mod:`.driver`: the JVM beside the driver: its processors, executors, classes, loggers
- :mod:`.plans`: the plan of a DataFrame or of a query, and its nodes
- :mod:`.relations`: the leaves of a plan that read files
- :mod:`.conditions`: a SQL condition, as Spark's analyzer resolves it
- :mod:`.queries`: the streaming queries of a session, and how one that starts is ended
- :mod:`.hadoop`: files and folders, by Hadoop's file systems
- :mod:`.rewriting`: the state in a checkpoint, written anew
"""
