"""Attention in one kernel, and caches that are written in place."""
