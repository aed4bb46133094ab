"""Choices of what to run on what."""
