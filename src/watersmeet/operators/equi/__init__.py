"""The equality join: rows of two and more streams with equal keys, close in time."""
