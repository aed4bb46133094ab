"""Contiguous pipeline stages by every method in turn: the solver for that objective.

`solver` begins with the dynamic programs of `stage_dp`, which is one method alone, and goes on, where
their value does not meet the bound, to a program for each order of the devices (`device_orders`),
annealing and CP-SAT.
"""
