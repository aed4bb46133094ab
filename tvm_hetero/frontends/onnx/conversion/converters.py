"""The files that register converters; `convert` imports this one."""

from __future__ import annotations

from tvm_hetero.frontends.onnx.conversion import (
    bounds,
    casts,
    choices,
    integer_shifts,
    ordered,
    pooling,
    recurrent,
    roi_align,
)

__all__ = [
    "bounds",
    "casts",
    "choices",
    "integer_shifts",
    "ordered",
    "pooling",
    "recurrent",
    "roi_align",
]
