"""The files that register converters; `convert` imports this one."""

from __future__ import annotations

from tvm_hetero.frontends.onnx.conversion import (
    ordered,
    recurrent,
)

__all__ = [
    "ordered",
    "recurrent",
]
