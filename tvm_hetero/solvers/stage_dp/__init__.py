"""Contiguous stages by dynamic programming: over an order of the tasks, or over all ideals."""
