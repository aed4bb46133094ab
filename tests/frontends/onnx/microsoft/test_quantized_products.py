"""Products of codes that give float32 or take it, beside ONNX Runtime."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from tests.frontends.onnx.contributed import Draw, assert_same, number, one_node

KINDS = [(np.uint8, np.uint8), (np.uint8, np.int8), (np.int8, np.int8)]


@pytest.mark.parametrize(("left", "right"), KINDS)
@pytest.mark.parametrize("depth", [20, 700])
def test_codes_to_numbers(left: type, right: type, depth: int) -> None:
    d = Draw()
    weights = [d.codes(left, 3, depth), d.codes(right, depth, 4), number(0.02), d.scales(4)]
    operands = [*weights, d.codes(left), d.codes(right, 4), d.normal(4)]
    assert_same(*one_node("MatMulIntegerToFloat", operands, constants=(1, 3, 5, 6)), atol=1e-2)


@pytest.mark.parametrize("right", [np.uint8, np.int8])
@pytest.mark.parametrize("depth", [20, 700])
def test_the_left_side_is_quantized_by_its_range(right: type, depth: int) -> None:
    d = Draw()
    weights = [d.codes(right, depth, 4), d.scales(4), d.codes(right, 4), d.normal(4)]
    operands = [d.normal(2, 3, depth), *weights]
    assert_same(*one_node("DynamicQuantizeMatMul", operands, constants=(1, 2, 3, 4)), atol=1e-2)


@pytest.mark.parametrize(("a_flip", "b_flip"), list(product((0, 1), repeat=2)))
@pytest.mark.parametrize("depth", [20, 700])
def test_gemm_of_codes_bit_for_bit(a_flip: int, b_flip: int, depth: int) -> None:
    d = Draw()
    a, b = d.codes(np.uint8, 3, depth), d.codes(np.int8, depth, 4)
    sides = [np.ascontiguousarray(x.T) if flip else x for x, flip in ((a, a_flip), (b, b_flip))]
    left = [sides[0], number(0.02), d.codes(np.uint8)]
    right = [sides[1], d.scales(4), d.codes(np.int8, 4), d.codes(np.int16, 4).astype(np.int32)]
    result = [number(depth * 0.03), d.codes(np.uint8)]
    flags = {"transA": a_flip, "transB": b_flip, "alpha": 0.5}
    constants = tuple(range(3, 9))
    exact = {"rtol": 0.0, "atol": 0.0}
    assert_same(*one_node("QGemm", [*left, *right, *result], constants=constants, **flags), **exact)
    assert_same(*one_node("QGemm", [*left, *right], constants=constants[:-2], **flags), atol=1e-3)


def test_a_convolution_of_codes_with_channels_last() -> None:
    d = Draw()
    x = [d.codes(np.uint8, 1, 9, 9, 4), number(0.02), d.codes(np.uint8)]
    weights = [d.codes(np.int8, 8, 4, 3, 3), d.scales(8), np.zeros(8, np.int8)]
    operands = [*x, *weights, number(2.0), d.codes(np.uint8)]
    model = one_node(
        "QLinearConv", operands, constants=tuple(range(1, 8)), channels_last=1, pads=[1] * 4
    )
    assert_same(*model, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int16, np.uint16])
def test_linear_codes_of_its_own_domain(dtype: type) -> None:
    d = Draw()
    x, codes = d.normal(3, 8) * 40, d.codes(dtype, 3, 8)
    zeros = d.below(9, 8, dtype=dtype)
    exact = {"rtol": 0.0, "atol": 0.0}
    quantize = one_node("QuantizeLinear", [x, d.scales(8), zeros], axis=1, version=13)
    assert_same(*quantize, **exact)
    back = one_node("DequantizeLinear", [codes, d.scales(8), zeros], axis=1, version=13)
    assert_same(*back, **exact)


def test_whole_numbers_of_16_bits_wrap() -> None:
    d = Draw()
    operands = [d.codes(np.int16, 3, 9), d.codes(np.int16, 9, 4)]
    assert_same(*one_node("MatMulInteger16", operands), rtol=0, atol=0)
