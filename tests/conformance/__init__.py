"""What every join operator must pass, whichever way it is run.

A :class:`~tests.conformance.join.Join` says what is joined; a
:class:`~tests.conformance.ways.Way` runs it over batches. The checks compare
what comes out with :mod:`tests.oracle`.
"""
