"""The files that register converters; `convert` imports this one."""

from __future__ import annotations

from tvm_hetero.frontends.onnx.conversion import (
    bounds,
    casts,
    integer_shifts,
    pooling,
    roi_align,
)

__all__ = ["bounds", "casts", "integer_shifts", "pooling", "roi_align"]
