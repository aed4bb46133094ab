"""The files that register rewriters; `walk` imports this one."""

from __future__ import annotations

from tvm_hetero.frontends.onnx.expansion import (
    control_flow,
    empty_pieces,
    fourier,
    like,
    lp_normalization,
    max_unpool,
    not_for,
    one_hot,
    scan,
    sequences,
    sequences_in_batches,
)

__all__ = [
    "control_flow",
    "empty_pieces",
    "fourier",
    "like",
    "lp_normalization",
    "max_unpool",
    "not_for",
    "one_hot",
    "scan",
    "sequences",
    "sequences_in_batches",
]
