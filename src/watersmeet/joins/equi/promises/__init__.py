"""What streams promise about their keys, and what follows from it."""
