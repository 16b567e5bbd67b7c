"""The query: a chain of operators over the streams' rows, on Spark.

- :mod:`.query`: the query as a whole, as one stateful operator or several
- :mod:`.in_place`: the same for an operator that needs no state, without a shuffle

Before an operator:

- :mod:`.inputs`: a DataFrame, and what the user said about it, as plain data
- :mod:`.watermarks`: the watermarks that are set in a plan
- :mod:`.encode`: rows as they are stored, computed by the JVM
- :mod:`.places`: a wide row takes up several places in a batch
- :mod:`.shards`: the shuffle partition of each shard, and what a task learns about its query
- :mod:`.capsule`: capsules, each of which holds many rows for one shard

In an operator and behind it:

- :mod:`.processor`: a step, shard by shard, as Spark calls it
- :mod:`.chunks`: a step's capsules in an order that does not depend on the shuffle
- :mod:`.store`: the state of a shard, in Spark's state store
- :mod:`.exits`: how results leave a step, or capsules for the next operator
- :mod:`.frames`: Arrow rows as the DataFrames of pandas that Spark must get
- :mod:`.result`: the columns of a result, and its event time
- :mod:`.counters`: counters on their way from a step to Spark's progress reports
- :mod:`.observations`: the names under which the counters are reported
- :mod:`.metrics`: the counters, read back for the user
"""
