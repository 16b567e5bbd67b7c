"""Conditions that must hold for rows to match, besides equal keys and windows.

A condition in SQL is translated to terms by the backend. All terms can be evaluated by predicates;
some can be used to search. The files, in the order in which to read them:

    predicate     a condition that is evaluated: in SQL, a Python function, or several of these
    formula       simple arithmetic that numpy computes for all pairs of some rows with others
    cascade       several predicates, one after the other, in the order that costs least
    bounds        for each row an interval of numbers; which intervals overlap
    overlaps      comparisons by which stored rows can be searched
    terms         the parts of a SQL condition, and facts that follow from each
    conjunction   the conditions of a join without a key: which are searched by, which evaluated
"""
