"""Quantized operators in terms of float32 ones that compute the same integers.

A float32 holds each whole number up to 2^24.  So sums of products of bytes are exact in it as long
as they stay below (`exact_sums`), and a quantized convolution is one that all our kernels know,
between a subtraction and a rounding.  Importing this package registers the rewriters.
"""

from __future__ import annotations

from tvm_hetero.frontends.onnx.quantized import convolutions, linear, matrix_products

__all__ = ["convolutions", "linear", "matrix_products"]
