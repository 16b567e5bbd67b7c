"""The Spark runtime: the only place that imports pyspark.

- :mod:`.backend`: Spark as the place where a join is planned for
- :mod:`.session`: the session that a join needs, and the Python workers in which it runs
- :mod:`.sql`: the SQL text of ``where``, translated to terms
- :mod:`.query`: a chain of operators as a query, from the streams' rows to results and metrics
- :mod:`.checkpoint`: what a stopped query has left, and what is compared with it at a start
- :mod:`.tables`: enrichments, and the tables that are staged for them
- :mod:`.jvm`: Spark's JVM, for all others: the only room that names it
"""
