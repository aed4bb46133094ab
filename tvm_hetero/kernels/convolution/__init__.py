"""Convolutions as packed kernels, and what goes with them."""
