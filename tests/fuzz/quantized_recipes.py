"""Nodes of quantized networks.

Scales are powers of two, so that all sums are exact on both sides.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.fuzz.growing import FLOAT, FuzzValue, GrowingModel
from tests.fuzz.recipes import recipe

# Channels of which a convolution is still small enough.
_MOST_CHANNELS = 16


@recipe
def quantized(m: GrowingModel) -> bool:
    """A product or a convolution of codes, in one of the forms that quantizers write."""
    x = m.pick(FLOAT, ranks=(2, 4), exact=True)
    if x is None:
        return False
    scale, zero = (
        m.constant(m.choose([0.25, 0.5]), np.float32),
        m.constant(m.integer(0, 255), np.uint8),
    )
    if not m.add("QuantizeLinear", [x.name, scale, zero], exact=True):
        return False
    codes = (m.nodes[-1].output[0], scale, zero)
    if x.rank > 2 and x.dims[1] <= _MOST_CHANNELS and m.integer(0, 3):
        return _convolution(m, x, codes)
    return _product(m, x, codes)


def _convolution(m: GrowingModel, x: FuzzValue, codes: tuple[str, str, str]) -> bool:
    channels, space = x.dims[1], x.rank - 2
    group = m.choose([g for g in (1, 1, 2, channels) if channels % g == 0])
    outputs = group * m.integer(1, 20)
    kernel = [min(m.integer(1, 3), d) for d in x.dims[2:]]
    window: dict[str, Any] = {"group": group, "strides": [m.integer(1, 2)] * space}
    if m.flag():
        window["pads"] = m.rng.integers(0, 2, 2 * space).tolist()
    else:
        window["auto_pad"] = m.choose(["SAME_UPPER", "SAME_LOWER", "VALID"])
    weights = _weights(m, (outputs, channels // group, *kernel), 0)
    form = m.integer(0, 2)
    if form == 0:
        made = m.add(
            "ConvInteger", [codes[0], weights[0], codes[2], weights[2]], exact=True, **window
        )
        return made and m.add("Cast", [m.nodes[-1].output[0]], exact=True, to=FLOAT)
    result = m.constant(m.choose([8.0, 64.0]), np.float32), m.constant(m.integer(0, 255), np.uint8)
    if form == 1:
        bias = [m.constant(m.rng.integers(-999, 999, outputs), np.int32)] if m.flag() else []
        operands = [*codes, *weights, *result, *bias]
        made = m.add("QLinearConv", operands, exact=True, **window)
        return made and _dequantized(m, (m.nodes[-1].output[0], *result)) != ""
    sides = [_dequantized(m, codes), _dequantized(m, weights, axis=0)]
    return "" not in sides and m.add("Conv", sides, exact=True, **window) and _codes(m, result)


def _product(m: GrowingModel, x: FuzzValue, codes: tuple[str, str, str]) -> bool:
    weights = _weights(m, (x.dims[-1], m.integer(1, 40)), 1)
    if m.flag():
        operands = [codes[0], weights[0], codes[2], weights[2]]
        made = m.add("MatMulInteger", operands, exact=True)
        return made and m.add("Cast", [m.nodes[-1].output[0]], exact=True, to=FLOAT)
    sides = [_dequantized(m, codes), _dequantized(m, weights, axis=1)]
    return "" not in sides and m.add("MatMul", sides, exact=True)


def _weights(m: GrowingModel, dims: tuple[int, ...], axis: int) -> tuple[str, str, str]:
    """Constant signed weights, of one scale or of one for each output."""
    count = dims[axis] if m.flag() else 1
    shape = (count,) if count > 1 else ()
    scales = m.constant(2.0 ** -m.rng.integers(1, 4, shape), np.float32)
    # ONNX Runtime takes no other zero points by output.
    zero = m.constant(np.zeros(shape), np.int8)
    return m.constant(m.rng.integers(-128, 128, dims), np.int8), scales, zero


def _dequantized(m: GrowingModel, side: tuple[str, str, str], axis: int = 1) -> str:
    """The numbers that codes stand for; '' where onnx refuses."""
    by_axis = {"axis": axis} if m.constants[side[1]].ndim else {}
    made = m.add("DequantizeLinear", list(side), exact=True, **by_axis)
    return str(m.nodes[-1].output[0]) if made else ""


def _codes(m: GrowingModel, quantizer: tuple[str, str]) -> bool:
    """Codes of the last value and, sometimes, the numbers again."""
    if not m.flag():
        return True
    made = m.add("QuantizeLinear", [m.nodes[-1].output[0], *quantizer], exact=True)
    return made and _dequantized(m, (m.nodes[-1].output[0], *quantizer)) != ""
