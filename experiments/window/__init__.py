"""Evaluating Window Joins over Unbounded Streams (Kang, Naughton, Viglas), run again."""
