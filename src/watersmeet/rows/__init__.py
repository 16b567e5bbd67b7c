"""Rows: how they are coded, stored and sent, for every operator and both backends."""
