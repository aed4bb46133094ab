"""The files that register converters; `convert` imports this one."""

from __future__ import annotations

from tvm_hetero.frontends.onnx.conversion import (
    choices,
    ordered,
    recurrent,
)

__all__ = [
    "choices",
    "ordered",
    "recurrent",
]
