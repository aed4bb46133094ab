"""The files that register converters; `convert` imports this one."""

from __future__ import annotations

from tvm_hetero.frontends.onnx.conversion import (
    bits,
    bounds,
    byte_convolutions,
    byte_products,
    casts,
    choices,
    finding,
    integer_shifts,
    ordered,
    pooling,
    recurrent,
    roi_align,
    windows,
)

__all__ = [
    "bits",
    "bounds",
    "byte_convolutions",
    "byte_products",
    "casts",
    "choices",
    "finding",
    "integer_shifts",
    "ordered",
    "pooling",
    "recurrent",
    "roi_align",
    "windows",
]
