"""Throughput by the whole ladder: shares rounded, whole elements, stages, annealing, CP-SAT.

`solver` climbs it until the value meets the bound of the period. Shares of elements, which divide a
task among devices (`element_sharing`), and plans that hand over less (`fewer_transfers`) follow.
"""
