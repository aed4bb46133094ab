"""Kernels measured where they stand, while the whole network runs."""
