"""What a join may use, and what it does with more than that: a step's load and the choice of
indexes (:mod:`.load`), rows that are shed (:mod:`.shedding`), a limit of the results of one row
(:mod:`.fan_out`), and probes that are put off (:mod:`.debts`)."""
