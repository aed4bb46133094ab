"""Spaces of schedules for tuning, and the traces it leaves."""
