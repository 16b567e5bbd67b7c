"""The Spark runtime: the only place that imports pyspark."""
