"""What a join is, in plain data: no Spark, no state, no rows.

A spec is what the planner makes of a call and what every other part reads: ``explain`` prints
it, a backend builds a query from it, the operator is laid out by it. Each family of joins has a
spec of its own; what they share is in :class:`~watersmeet.spec.join.JoinSpec`. Times and durations
are whole microseconds, types are Spark's short names (``bigint``, ``decimal(10,2)``,
``array<int>``).

What the user asked for is in the spec; what follows from it for a run, with this number of
shards, is in a *policy* (:mod:`watersmeet.spec.policy`).
"""
