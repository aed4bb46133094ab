"""Policies that tune and rebalance pipelines while they run (Pipe-search, Shisha, ODIN): empty yet.

They would watch what stages really take and move tasks between devices; that is not what
`cost_models.tuning` and `kernels.tuning` do, which tune kernels before a model is built. May import
every room below floor 11 (tests/test_floors.py): solvers, executor, pipeline and all beneath.
"""
