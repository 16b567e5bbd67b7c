"""What a planned join does, as a tree to read: what all families share."""
