"""Planning: from a user's call to a validated :class:`~watersmeet.joins.equi.spec.EquiSpec`.

Nothing here knows Spark or state. A mistake in the call is found here, not in a task.
"""
