"""What a join is, in plain data: no Spark, no state, no rows.

Planning makes a spec of a call, and every other part reads it: ``explain`` prints it, a backend
builds a query from it, and the layouts of stored rows follow from it. Each family of joins has a
spec of its own, in its folder. Times and durations are whole microseconds, types are Spark's
short names (``bigint``, ``decimal(10,2)``, ``array<int>``). The files, in the order in which to
read them:

    stream      a stream: its columns, its time, what it promises about its keys
    join_type   what becomes of rows that match, and of rows that do not
    output      the columns of a result, and where their values come from
    join        what joins of every family have in common
    windowed    what joins of streams have in common: windows, and the event time of results
    predicate   a condition that is a Python function, as the user gives it
    budget      what a join may use, and how shards share it
    tuning      how a join works, where any way gives the same result
    limits      how large the pieces are in which work is done

A spec is what was asked for. How that runs, with this number of shards, is a *policy*: each family
makes its own when a join is planned.
"""
