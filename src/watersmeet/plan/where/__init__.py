"""What ``where`` says about keys and times, so that it may stand alone.

If a call gives no ``on``, equalities between columns become the key. If it gives no ``within``,
limits of how far times are apart become the windows. The rest of the condition is evaluated, so
that the result is that of the condition as it stands::

    a.k = b.k AND b.at BETWEEN a.at AND a.at + INTERVAL 5 MINUTES AND a.x < b.y
    ────┬────     ───────────────────────┬───────────────────────     ────┬────
       key           windows: a 5 minutes, b 0 seconds                evaluated

The files:

    matching     all that must hold for rows to match: key, windows, and conditions to evaluate
    equalities   which columns become a key
    windows      which windows follow from limits of differences between times
"""
