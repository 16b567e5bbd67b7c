"""What ``where`` says about keys and times, so that it may stand alone.

Where a call gives no ``on``, equalities between columns become the key; where it gives no
``within``, limits of how far times are apart become the windows. What they do not express is
evaluated, so that the result is that of the condition as it stands::

    a.k = b.k AND b.at BETWEEN a.at AND a.at + INTERVAL 5 MINUTES AND a.x < b.y
    ────┬────     ───────────────────────┬───────────────────────     ────┬────
       key           windows: a 5 minutes, b 0 seconds                evaluated

The files:

    matching     all that must hold for rows to match: the key, the windows, and what is evaluated
    equalities   which columns become a key
    windows      which windows follow from limits of differences between times
"""
