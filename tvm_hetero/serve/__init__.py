"""Requests served under service-level objectives. Nothing is here yet: the room has its floor."""
