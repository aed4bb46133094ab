"""Convolutions of codes: ConvInteger and QLinearConv.

What is padded is the zero point: 0 once it has been subtracted.
"""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from tvm_hetero.frontends.onnx.expansion.registry import rewrites
from tvm_hetero.frontends.onnx.expansion.rewriting import Rewriting
from tvm_hetero.frontends.onnx.quantized.arithmetic import (
    Quantizer,
    add_codes,
    along,
    as_float,
    centred,
    float_zero,
    known_codes,
    scalar_quantizer,
)
from tvm_hetero.frontends.onnx.quantized.exact_sums import (
    EXACT,
    ExactSum,
    add_parts,
    cut,
    greatest_magnitude,
    sliced,
)

_WINDOW = ("auto_pad", "dilations", "kernel_shape", "pads", "strides")


@rewrites("ConvInteger")
def rewrite_conv_integer(r: Rewriting) -> bool:
    """Give the sums in int32."""
    x, weights = r.inputs[:2]
    left = centred(r, x, _one_zero(r, r.operand(2)))
    total = add_integer_convolution(r, left, (x, r.operand(2)), (weights, r.operand(3)))
    total.as_int32(r, r.outputs)
    return True


@rewrites("QLinearConv")
def rewrite_q_linear_conv(r: Rewriting) -> bool:
    """Multiply the sums by all scales at once, and round."""
    x = scalar_quantizer(r, 1, 2)
    left = centred(r, r.inputs[0], x.zero)
    add_quantized_convolution(r, left, x, r.outputs)
    return True


def add_quantized_convolution(
    r: Rewriting, left: str, x: Quantizer, outputs: int | list[str]
) -> str:
    """Add QLinearConv of an input that is centred already, with the channels first.

    Parameters
    ----------
    r : Rewriting
        The node, with the operands of QLinearConv.
    left : str
        The input less its zero point, in float32.
    x : Quantizer
        Of the input.
    outputs : int or list of str
        As `Rewriting.add` takes them.
    """
    weights, rank = r.operand(3), r.rank(r.operand(3))
    total = add_integer_convolution(
        r, left, (r.inputs[0], r.operand(2)), (weights, r.operand(5)), r.operand(8)
    )
    result = scalar_quantizer(r, 6, 7)
    scale = along(r, as_float(r, r.operand(4)), r.dims(r.operand(4)), rank, 1)
    factor = r.add("Div", [r.add("Mul", [x.scale, scale]), result.scale])
    scaled = r.exact(r.add("Mul", [total.as_float(r), factor]))
    return add_codes(r, scaled, result, outputs)


def add_integer_convolution(
    r: Rewriting, left: str, x: tuple[str, str], weights: tuple[str, str], bias: str = ""
) -> ExactSum:
    """Add the exact convolution of codes less their zero points.

    Parameters
    ----------
    r : Rewriting
        The node; group and window are its.
    left : str
        The input less its zero point, in float32, with the channels first.
    x, weights : pair of str
        Codes and zero point of either; '' for none.
    bias : str
        Of int32, one for each channel; '' for none.
    """
    kept = {name: r.attribute(name) for name in (*_WINDOW, "group")}
    rank = r.rank(weights[0])
    zero = along(r, float_zero(r, weights[1]), r.dims(weights[1]) if weights[1] else (), rank, 0)
    right = centred(r, weights[0], zero)
    groups = int(r.attribute("group", 1))
    factor, steps = greatest_magnitude(r, *x), _steps(r, *weights)
    if int(steps.sum(axis=0).max()) * factor + _greatest(r, bias) <= EXACT:
        biases = [as_float(r, bias)] if bias else []
        return ExactSum(r.add("Conv", [left, right, *biases], **kept), TensorProto.FLOAT)
    ranges = cut(r, steps, factor)
    groups = int(r.attribute("group", 1))
    ranges = cut(r, _steps(r, *weights), greatest_magnitude(r, *x))

    def part(start: int, end: int) -> str:
        if len(ranges) == 1:
            return r.add("Conv", [left, right], **kept)
        if groups > 1:
            r.refuse("has groups of so many channels that float32 cannot hold their sums")
        sides = [sliced(r, side, start, end, 1) for side in (left, right)]
        return r.add("Conv", sides, **kept)

    total = add_parts(r, ranges, part)
    if not bias:
        return total
    return total.plus(r, along(r, bias, r.dims(bias), rank, 1))


def _greatest(r: Rewriting, bias: str) -> int:
    """Return the greatest magnitude of a bias."""
    known = known_codes(r, bias) if bias else np.zeros(1, np.int32)
    return EXACT if known is None else int(np.abs(known.astype(np.int64)).max())


def _steps(r: Rewriting, codes: str, zero: str) -> np.ndarray:
    """Return what each input channel adds at most to each output channel: (input, output)."""
    dims = r.dims(codes)
    known, offset = known_codes(r, codes), known_codes(r, zero) if zero else np.zeros(1, np.int32)
    if known is None or offset is None:
        window = int(np.prod(dims[2:], dtype=np.int64))
        return np.full((dims[1], 1), window * greatest_magnitude(r, codes, zero), np.int64)
    column = offset.astype(np.int64).reshape(-1, *[1] * (len(dims) - 1))
    centre = np.abs(known.astype(np.int64) - column)
    return centre.reshape(dims[0], dims[1], -1).sum(axis=2).T


def _one_zero(r: Rewriting, name: str) -> str:
    zero = float_zero(r, name)
    return along(r, zero, (1,), 0, 0) if zero else ""
