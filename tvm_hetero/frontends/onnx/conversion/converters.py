"""The files that register converters; `convert` imports this one."""

from __future__ import annotations

from tvm_hetero.frontends.onnx.conversion import (
    bits,
    choices,
    finding,
    ordered,
    recurrent,
    windows,
)

__all__ = [
    "bits",
    "choices",
    "finding",
    "ordered",
    "recurrent",
    "windows",
]
