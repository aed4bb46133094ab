"""Pipelines tuned while they run. Nothing is here yet: the room has its floor (tests/test_floors.py)."""
