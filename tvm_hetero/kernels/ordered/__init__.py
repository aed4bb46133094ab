"""Kernels that do one thing after the other: selecting, accumulating, counting what is kept."""
