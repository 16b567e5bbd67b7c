"""Operators: one step from new rows, a watermark and state to results.

Nothing here knows Spark. The Spark runtime calls an operator once a shard and
micro-batch; tests and experiments call the same operator with no JVM.
"""
