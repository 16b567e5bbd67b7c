"""In which order a step takes new rows, and probes windows."""
