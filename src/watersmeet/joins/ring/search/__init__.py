"""The search of a ring join: which stored rows do probing rows match?

To be read in this order. What is in the middle goes from one module to the next::

    probing_rows   rows that probe, with the times that they may join
         │   ProbingRows
    candidates     the pairs to compare: by time and by overlaps, as far as they are in demand
         │   Runs, or Pairs
    blocks         some pairs at a time, and the values that predicates read of them
    number_blocks  the same for numbers in runs, which need not be gathered; for formulas they are
         │         not even copied
         │   Block, or FormulaBlock
    probe          the predicates, in the cheapest order: the pairs that match
         │   Matches
         ▼

*Pairs* are two arrays: positions of probing rows, and of the rows of a stored segment. *Runs* are
the same pairs as long as nobody asks which they are: each probing row meets neighbours in an order
of the stored rows (:mod:`watersmeet.segments.runs`).

**Example.** Rows of stream a probe a segment of stream b. Rows of a wait 5 seconds, those of b 10;
so a row of a at time t may join rows of b from t - 10 to t + 5. The condition is ``abs(a.x - b.x)
<= 2 AND near(a, b)``, of which the first part is an overlap and the second is a function::

    rows of a:  t   x                  rows of b:  t   x
             0  20  5                           0  9   6
             1  20  8                           1  12  6
             2  31  9                           2  24  9

    by time     0 and 1 meet 10 to 25, the rows 1 and 2; row 2 meets 21 to 36, the row 2
    as runs     rows [0, 1, 2], low [1, 1, 2], high [3, 3, 3]: five pairs
    by overlap  of these, (0, 1), (1, 1), (1, 2) and (2, 2) are left: the candidates
    a block     a.x = [5, 8, 8, 9] and b.x = [6, 6, 9, 9], if one block has room for them
    matches     those of the four for which ``near`` returns true

Without the overlap there are runs, and the block has five pairs. Its values are not gathered pair
by pair: each value of a is repeated as often as its run is long, ``[5, 5, 8, 8, 9]``, and the runs
of b are strung together, ``[6, 9, 6, 9, 9]``.

Besides: :mod:`.fan_out` limits what a row matches, :mod:`.progress_log` says how far a long step
is.
"""
