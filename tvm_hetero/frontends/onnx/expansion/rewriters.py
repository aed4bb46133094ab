"""The files that register rewriters; `walk` imports this one."""

from __future__ import annotations

from tvm_hetero.frontends.onnx.expansion import (
    control_flow,
    empty_pieces,
    like,
    scan,
    sequences,
)

__all__ = ["control_flow", "empty_pieces", "like", "scan", "sequences"]
