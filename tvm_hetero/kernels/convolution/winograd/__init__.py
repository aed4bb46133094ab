"""Winograd's convolution, F(4x4, 3x3), with weights transformed ahead."""
