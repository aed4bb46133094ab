"""Throughput by the whole ladder (`solver`): balance, stages, annealing, CP-SAT, bound of shares.

Beside it are solvers of one idea each, by shares of elements (`element_sharing`: several devices
divide a task) and by whole ones (`whole_elements`: each device runs the whole graph), and what
chooses among plans that are about as good the one that hands over least (`fewer_transfers`).
"""
