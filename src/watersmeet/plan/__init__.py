"""Planning: from a user's call to a validated spec.

Nothing here knows Spark, state, or a family of joins: the plans of all families share this. A
mistake in the call is found here, not in a task. The files, in the order in which to read them:

    call             the arguments of a call of ``wm.join``, before anything is checked
    signatures       arguments that do not fit a public call are answered with an example
    backend          what planning asks of the place where the join will run
    arguments        checks that several arguments share
    streams          the streams: their number, their names, their times
    naming           which column a name means; how the columns of a result are called
    types            which types may be keys, and in which type keys meet
    keys             the key columns of ``on``, and the types in which they are compared
    where/           what ``where`` says about keys and times, and which conditions are evaluated
    join_arguments   the join type, the name, the windows, the conditions
    event_time       whose time the result's event time is; how far the watermark is held back
    budget           what a join may use, and whether it can keep to it
    crowding         are there far too many shards for the cores?
    explain/         what a planned join does, to read
"""
