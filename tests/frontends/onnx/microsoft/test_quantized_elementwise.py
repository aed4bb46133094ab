"""Operators on codes beside ONNX Runtime, which may round a tie otherwise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.frontends.onnx.contributed import Draw, assert_same, number, one_node

TYPES = [np.uint8, np.int8]


def check(operator: str, operands: list[Any], steps: int = 1, **attributes: Any) -> None:
    """Demand codes that differ by no more than so many steps; scales and zeros are constants."""
    constants = tuple(i for i, x in enumerate(operands) if x.ndim == 0)
    attributes = {key.removesuffix("_"): value for key, value in attributes.items()}
    assert_same(*one_node(operator, operands, constants=constants, **attributes), 0, steps)


def quantized(d: Draw, dtype: type, scale: float, *shape: int) -> list[np.ndarray]:
    """Codes, a scale and a zero point."""
    return [d.codes(dtype, *shape), number(scale), d.codes(dtype)]


@pytest.mark.parametrize("dtype", TYPES)
def test_two_operands(dtype: type) -> None:
    d = Draw()
    sides = [*quantized(d, dtype, 0.02, 3, 50), *quantized(d, dtype, 0.03, 50)]
    for operator in ("QLinearAdd", "QLinearMul"):
        check(operator, [*sides, number(0.04), d.codes(dtype)])


@pytest.mark.parametrize("dtype", TYPES)
def test_one_operand(dtype: type) -> None:
    d = Draw()
    x = quantized(d, dtype, 0.02, 2, 3, 9)
    y = [number(0.004), d.codes(dtype)]
    check("QLinearSigmoid", [*x, *y])
    check("QLinearLeakyRelu", [*x, number(0.02), d.codes(dtype)], alpha=0.2)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("axis", [-1, 1])
@pytest.mark.parametrize("version", [11, 13])
def test_softmax_of_old_and_new_opsets(dtype: type, axis: int, version: int) -> None:
    d = Draw()
    x, y = quantized(d, dtype, 0.02, 2, 3, 9), [number(0.004), d.codes(dtype)]
    check("QLinearSoftmax", [*x, *y], axis=axis, opset=version)


@pytest.mark.parametrize("dtype", TYPES)
def test_what_is_joined_or_chosen_is_exact(dtype: type) -> None:
    d = Draw()
    y = [number(0.04), d.codes(dtype)]
    parts = [*quantized(d, dtype, 0.03, 2, 3), *quantized(d, dtype, 0.04, 2, 4)]
    check("QLinearConcat", [*y, *parts], steps=0, axis=1)
    sides = [*quantized(d, dtype, 0.02, 3, 5), *quantized(d, dtype, 0.03, 5)]
    check("QLinearWhere", [d.generator.random((3, 5)) < 0.5, *sides, *y], steps=0)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("last", [0, 1])
def test_averages(dtype: type, last: int) -> None:
    d = Draw()
    shape = (2, 7, 7, 3) if last else (2, 3, 7, 7)
    operands = [*quantized(d, dtype, 0.02, *shape), number(0.01), d.codes(dtype)]
    check("QLinearGlobalAveragePool", operands, steps=0, channels_last=last)
    window = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 0, 0]}
    for more in ({}, {"count_include_pad": 1}, {"ceil_mode": 1}):
        check("QLinearAveragePool", operands, channels_last=last, **window, **more)
