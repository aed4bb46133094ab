"""The files that register rewriters; `walk` imports this one."""

from __future__ import annotations

from tvm_hetero.frontends.onnx.expansion import (
    activations,
    control_flow,
    like,
    normalization,
    powers,
    reductions,
    resize,
    windows,
)

__all__ = ["activations", "control_flow", "like", "normalization", "powers", "reductions", "resize", "windows"]
