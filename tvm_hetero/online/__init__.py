"""Pipelines that are tuned while they run: nothing yet but a floor (tests/test_floors.py)."""
