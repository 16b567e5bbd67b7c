"""What a join may use, and what it does with more than that: a step's load and the choice of
indexes (:mod:`.load`), shedding, fan-out, and probes that are put off (:mod:`.debts`)."""
