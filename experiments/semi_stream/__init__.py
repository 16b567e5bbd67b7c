"""The semi-stream paper's experiments (Naeem, Weber, Lutteroth: A Memory-Optimal Many-To-Many
Semi-Stream Join)."""
