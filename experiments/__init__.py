"""The papers' experiments, run again: one folder a paper, claims as data, figures as PNG."""
