"""Kernels over rows and windows: softmax, pooling, transposes, concatenation."""
