"""The public calls: each family's, and those that describe streams."""
