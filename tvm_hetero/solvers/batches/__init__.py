"""Ranges of a batch that stream through the network."""
