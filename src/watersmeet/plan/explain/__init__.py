"""What a planned join does, as a tree to read."""
