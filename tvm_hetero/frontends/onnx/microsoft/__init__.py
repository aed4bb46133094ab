"""Operators of the domain ``com.microsoft``, said in standard ones.

ONNX Runtime's optimizer and Optimum put them in the place of several standard nodes, or of one with
what follows it.  `forms` says of which operators which attributes and operands are taken; the other
files hold the rewriters.  Importing this package registers them.
"""

from __future__ import annotations

from tvm_hetero.frontends.onnx.microsoft import (
    attention,
    blocked_weights,
    convolutions,
    gelus,
    grouped_attention,
    layouts,
    norms,
    products,
    quantized_elementwise,
    quantized_embeddings,
    quantized_lstm,
    quantized_pools,
    quantized_products,
    rotary,
    sums,
)

__all__ = [
    "attention",
    "blocked_weights",
    "convolutions",
    "gelus",
    "grouped_attention",
    "layouts",
    "norms",
    "products",
    "quantized_elementwise",
    "quantized_embeddings",
    "quantized_lstm",
    "quantized_pools",
    "quantized_products",
    "rotary",
    "sums",
]
