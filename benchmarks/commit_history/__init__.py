"""What `benchmarks.history` is made of: subjects, both sides in turns, rows, losses, the page."""
