"""Kernels measured one by one, each implementation against the others."""
