"""Contiguous stages by dynamic programming alone: over an order of the tasks, or over all ideals.

One method; `stages` above has it as its first rungs, and goes on from its plan.
"""
