"""Benchmarks: ours, Spark's own way and the floor, in one run, as ratios."""
