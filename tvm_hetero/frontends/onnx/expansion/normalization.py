"""Normalizations in the forms that TVM's importer does not know.

    y = (x - mean) / sqrt(variance + epsilon) * scale + bias

``LayerNormalization`` with its statistics as outputs, or a scale that is broadcast, and
``RMSNormalization`` over all axes are written out, in the type that ``stash_type`` asks for;
``BatchNormalization`` that computes its statistics while it runs is, too: it changes nothing but
its outputs.
"""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from tvm_hetero.frontends.onnx.expansion.activations import NARROW
from tvm_hetero.frontends.onnx.expansion.axes import axis_of
from tvm_hetero.frontends.onnx.expansion.registry import rewrites
from tvm_hetero.frontends.onnx.expansion.rewriting import Rewriting

_AXES_ARE_OPERAND = 18


@rewrites("LayerNormalization")
def rewrite_layer_normalization(r: Rewriting) -> bool:
    """Write out float64, and what is more than one output with a scale of the whole shape."""
    x, scale, bias = r.operand(0), r.operand(1), r.operand(2)
    rank = r.rank(x)
    axis = axis_of(r, -1, rank)
    normalized = r.dims(x)[axis:]
    whole = all(r.dims(each) == normalized for each in (scale, bias) if each)
    kind = r.element_type(x)
    # TVM has no kernel of float64.
    if whole and not r.wants(1) and not r.wants(2) and kind != TensorProto.DOUBLE:
        return False
    wide = r.add("Cast", [x], to=TensorProto.FLOAT) if kind in NARROW else x
    dtype = np.dtype(np.float32) if kind in NARROW else r.dtype(x)
    axes = list(range(axis, rank))
    mean = mean_over(r, wide, axes)
    away = r.add("Sub", [wide, mean])
    inverse = _inverse_deviation(r, mean_over(r, r.add("Mul", [away, away]), axes), dtype)
    _finish(r, r.add("Mul", [away, inverse]), scale, bias)
    for position, value in ((1, mean), (2, inverse)):
        if r.wants(position):
            # Statistics are of float32 unless the model asks for another type.
            to = r.attribute("stash_type", 1)
            r.add("Cast", [value], [r.outputs[position]], to=to)
    return True


@rewrites("RMSNormalization")
def rewrite_rms_normalization(r: Rewriting) -> bool:
    """Write out a normalization over all axes."""
    x = r.operand(0)
    rank = r.rank(x)
    if axis_of(r, -1, rank) != 0:
        return False
    kind = r.element_type(x)
    wide = r.add("Cast", [x], to=TensorProto.FLOAT) if kind in NARROW else x
    dtype = np.dtype(np.float32) if kind in NARROW else r.dtype(x)
    square = mean_over(r, r.add("Mul", [wide, wide]), list(range(rank)))
    _finish(r, r.add("Mul", [wide, _inverse_deviation(r, square, dtype)]), r.operand(1), "")
    return True


@rewrites("BatchNormalization")
def rewrite_batch_normalization(r: Rewriting) -> bool:
    """Write out the form that normalizes by the statistics of the batch itself."""
    if not r.attribute("training_mode", 0):
        return False
    x, scale, bias, running_mean, running_var = r.inputs
    rank, kind = r.rank(x), r.element_type(x)
    per_channel = r.constant([1, -1, *[1] * (rank - 2)], np.int64)
    wide = r.add("Cast", [x], to=TensorProto.FLOAT) if kind in NARROW else x
    dtype = np.dtype(np.float32) if kind in NARROW else r.dtype(x)
    axes = [d for d in range(rank) if d != 1]
    mean = mean_over(r, wide, axes)
    away = r.add("Sub", [wide, mean])
    variance = mean_over(r, r.add("Mul", [away, away]), axes)
    found = r.add("Mul", [away, _inverse_deviation(r, variance, dtype)])
    columns = [r.add("Reshape", [each, per_channel]) for each in (scale, bias)]
    _finish(r, found, *columns)
    momentum = r.attribute("momentum", 0.9)
    for position, old, new in ((1, running_mean, mean), (2, running_var, variance)):
        if r.wants(position):
            _move(r, old, new, momentum, r.outputs[position])
    return True


def _move(r: Rewriting, old: str, new: str, momentum: float, output: str) -> None:
    """running = running * momentum + current * (1 - momentum), in the type of the running one."""
    flat = r.add("Reshape", [new, r.constant([-1], np.int64)])
    fresh = r.add("Cast", [flat], to=r.element_type(old))
    kept = r.add("Mul", [old, r.like(momentum, old)])
    r.add("Add", [kept, r.add("Mul", [fresh, r.like(1 - momentum, old)])], [output])


def mean_over(r: Rewriting, x: str, axes: list[int]) -> str:
    """Add the mean over `axes`, which stay; returns its name."""
    if r.opset >= _AXES_ARE_OPERAND:
        return r.add("ReduceMean", [x, r.constant(axes, np.int64)], keepdims=1)
    return r.add("ReduceMean", [x], axes=axes, keepdims=1)


def _inverse_deviation(r: Rewriting, variance: str, dtype: np.dtype) -> str:
    epsilon = r.constant(r.attribute("epsilon", 1e-5), dtype)
    return r.add("Reciprocal", [r.add("Sqrt", [r.add("Add", [variance, epsilon])])])


def _finish(r: Rewriting, found: str, scale: str, bias: str) -> None:
    """Scale what was normalized, in the operand's own type, and give it as the first output."""
    kind = r.element_type(r.operand(0))
    if kind in NARROW:
        found = r.add("Cast", [found], to=kind)
    if scale and bias:
        r.add("Add", [r.add("Mul", [found, scale]), bias], [r.outputs[0]])
    elif scale:
        r.add("Mul", [found, scale], [r.outputs[0]])


@rewrites("Dropout")
def rewrite_dropout(r: Rewriting) -> bool:
    """At inference the operand goes on as it is, and the mask drops nothing."""
    x, ratio, training = r.operand(0), r.operand(1), r.operand(2)
    off = not training or (r.array(training) is not None and not np.any(r.array(training)))
    nothing = ratio and r.array(ratio) is not None and not np.any(r.array(ratio))
    if not off and not nothing:
        r.refuse("is in training mode, or may be. Export the model for inference")
    r.alias(x, r.outputs[0])
    if r.wants(1):
        everything = np.broadcast_to(np.True_, r.dims(x))
        r.add("Identity", [r.constant(everything)], [r.outputs[1]])
    return True
