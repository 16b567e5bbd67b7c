"""MJoin: A Metadata-Aware Stream Join Operator (Ding, Rundensteiner, Heineman), run again."""
