"""Contiguous pipeline stages by every method in turn: a ladder for that objective.

`solver` begins with the dynamic programs of `stage_dp`, which is one method alone. Where their
value does not meet the bound, it goes on: a program for each order of the devices
(`device_orders`), annealing, CP-SAT.
"""
