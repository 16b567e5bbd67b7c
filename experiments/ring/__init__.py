"""Scalable Stream Join Processing with Expensive Predicates (Wang, Rundensteiner), run again."""
