"""What joins cost: the papers' models, this engine's, and the machine's own weights."""
