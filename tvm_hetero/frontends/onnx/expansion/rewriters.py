"""The files that register rewriters; `walk` imports this one."""

from __future__ import annotations

from tvm_hetero.frontends.onnx.expansion import (
    activations,
    control_flow,
    empty_pieces,
    fourier,
    like,
    lp_normalization,
    max_unpool,
    normalization,
    not_for,
    one_hot,
    one_hot_products,
    powers,
    reductions,
    resize,
    scan,
    sequences,
    sequences_in_batches,
    whole_slices,
    wide_sums,
    windows,
)

__all__ = [
    "activations",
    "control_flow",
    "empty_pieces",
    "fourier",
    "like",
    "lp_normalization",
    "max_unpool",
    "normalization",
    "not_for",
    "one_hot",
    "one_hot_products",
    "powers",
    "reductions",
    "resize",
    "scan",
    "sequences",
    "sequences_in_batches",
    "whole_slices",
    "wide_sums",
    "windows",
]
