"""In which order a step processes new rows, and probes windows."""
