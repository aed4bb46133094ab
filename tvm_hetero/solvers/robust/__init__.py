"""Schedules that stay good when costs vary."""
