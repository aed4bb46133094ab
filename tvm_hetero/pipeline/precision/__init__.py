"""Precision as a choice for each task: what it costs in accuracy, and which tasks are worth it."""
