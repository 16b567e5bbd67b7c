"""Planning: from a user's call to a validated :class:`~watersmeet.spec.EquiSpec`.

Nothing here knows Spark, state or rows. A mistake in the call is found here, not in a task.
"""
