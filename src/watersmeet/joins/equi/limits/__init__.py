"""What a join may use, and what it does with more than that."""
