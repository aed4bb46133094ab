"""Contiguous pipeline stages: every method in turn, with sets of devices tried in order."""
