"""Convolutions of codes: ConvInteger and QLinearConv.

What is padded is the zero point: 0 once it has been subtracted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import TensorProto

from tvm_hetero.frontends.onnx.expansion.channel_bias import check_bias
from tvm_hetero.frontends.onnx.expansion.registry import rewrites
from tvm_hetero.frontends.onnx.expansion.rewriting import Rewriting
from tvm_hetero.frontends.onnx.expansion.windows import pads_of_window
from tvm_hetero.frontends.onnx.model.byte_weights import byte_filters
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

# Channels of a word, dimensions of images, and the greatest product of two bytes.
WORD, _OF_IMAGES, _GREATEST_PRODUCT = 4, 4, 255 * 128
_WINDOW = ("auto_pad", "dilations", "kernel_shape", "pads", "strides")


@rewrites("ConvInteger")
def rewrite_conv_integer(r: Rewriting) -> bool:
    """Give the sums in int32; what is bytes stays as it is (`conversion.byte_convolutions`)."""
    if _filters(r, (r.inputs[0], r.operand(2)), (r.inputs[1], r.operand(3))) is not None:
        if r.attribute("auto_pad", "NOTSET") == "NOTSET":
            return False
        r.add("ConvInteger", r.inputs, r.outputs, **_written_window(r, r.dims(r.inputs[1])[2:]))
        return True
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
    check_bias(r, r.operand(8), weights)
    sides = (r.inputs[0], r.operand(2)), (weights, r.operand(5))
    filters = None if r.attribute("channels_last", 0) else _filters(r, *sides)
    if filters is None:
        total = add_integer_convolution(r, left, *sides, r.operand(8))
    else:
        total = _add_sums_of_bytes(r, sides[0], filters, r.operand(8))
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


def _filters(
    r: Rewriting, x: tuple[str, str], weights: tuple[str, str]
) -> np.ndarray[Any, Any] | None:
    """Return the weights less their zero points where kernels for bytes take a convolution.

    The codes are of eight bits with one constant zero point, the weights constant and signed bytes
    once their zero points are subtracted, and the channels of a group whole words of four, or one.
    """
    zero = r.array(x[1]) if x[1] else np.zeros(1, np.uint8)
    offsets = r.array(weights[1]) if weights[1] else np.zeros(1, np.int8)
    if r.element_type(x[0]) not in (TensorProto.UINT8, TensorProto.INT8):
        return None
    if zero is None or zero.size != 1 or offsets is None or r.rank(x[0]) not in (3, 4):
        return None
    found = byte_filters(r.array(weights[0]), offsets)
    if found is None or 0 in r.dims(x[0]) or found[0, 0].size * _GREATEST_PRODUCT > EXACT:
        return None
    groups, channels = int(r.attribute("group", 1)), found.shape[1]
    alone = channels == 1 and found.ndim == _OF_IMAGES
    return found if groups == 1 or channels % WORD == 0 or alone else None


def _add_sums_of_bytes(
    r: Rewriting, x: tuple[str, str], filters: np.ndarray[Any, Any], bias: str
) -> ExactSum:
    """Add a convolution of bytes with a bias, in int32."""
    weights = r.constant(filters)
    total = r.add("ConvInteger", [x[0], weights, x[1]], **_written_window(r, filters.shape[2:]))
    if bias:
        column = along(r, bias, r.dims(bias), filters.ndim, 1)
        total = r.add("Add", [total, column])
    return ExactSum(total, TensorProto.INT32)


def _written_window(r: Rewriting, kernel: Sequence[int]) -> dict[str, Any]:
    """Return the attributes of a convolution, its pads written out."""
    kept = {name: r.attribute(name) for name in ("dilations", "strides", "group")}
    return {**kept, "pads": pads_of_window(r, kernel)}


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
