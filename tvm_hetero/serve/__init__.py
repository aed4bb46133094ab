"""Requests served under service-level objectives: nothing yet but a floor."""
