"""A bias (and a residual) added before or after what follows: softmax, dropout, nothing."""

from __future__ import annotations

import math

import numpy as np

from tvm_hetero.frontends.onnx.expansion.axes import axis_of
from tvm_hetero.frontends.onnx.expansion.rewriting import Rewriting
from tvm_hetero.frontends.onnx.microsoft.forms import contributed


@contributed("BiasAdd", operands=3)
def rewrite_bias_add(r: Rewriting) -> None:
    """Add the bias, and then the residual."""
    x, bias, skip = r.inputs
    r.add("Add", [r.add("Add", [x, bias]), skip], r.outputs)


@contributed("BiasDropout", operands=5, results=2, indifferent=("seed",))
def rewrite_bias_dropout(r: Rewriting) -> None:
    """Nothing is dropped at inference."""
    if r.operand(4) and bool(np.any(r.constant_of(4, "training mode"))):
        r.refuse("is for training. Export the model for inference.")
    if r.wants(1):
        r.refuse("gives the mask of what was dropped. Export the model for inference.")
    rest = [r.operand(2)] if r.operand(2) else []
    _add_all(r, [r.operand(0), r.operand(1), *rest])


@contributed("BiasSoftmax", operands=2, attributes=("axis",), indifferent=("is_inner_broadcast",))
def rewrite_bias_softmax(r: Rewriting) -> None:
    """Add the bias, which fits as the operand of an Add does, and take softmax from `axis` on.

    How ONNX Runtime's kernel repeats the bias (``is_inner_broadcast``) follows from the shapes.
    """
    dims = r.dims(r.inputs[0])
    axis = axis_of(r, 1, len(dims))
    total = r.add("Add", r.inputs)
    if axis == len(dims) - 1:
        r.add("Softmax", [total], r.outputs, axis=-1)
        return
    flat = r.constant([math.prod(dims[:axis]), math.prod(dims[axis:])], np.int64)
    soft = r.add("Softmax", [r.add("Reshape", [total, flat])], axis=-1)
    r.add("Reshape", [soft, r.constant(dims, np.int64)], r.outputs)


def _add_all(r: Rewriting, values: list[str]) -> None:
    total = values[0]
    for value in values[1:-1]:
        total = r.add("Add", [total, value])
    r.add("Add", [total, values[-1]], r.outputs)
