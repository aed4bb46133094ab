"""Quantize, Dequantize and DynamicQuantizeLinear, bit for bit those of ONNX Runtime."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper

from tests.frontends.onnx.contributed import Draw, assert_same, number, one_node, rewritten
from tests.frontends.onnx.running import assert_same as assert_computed
from tests.frontends.onnx.running import typed_model
from tvm_hetero.errors import ModelError

TYPES = [np.uint8, np.int8, np.int16, np.uint16]
STANDARD: dict[str, Any] = {"domain": "", "version": 21}


def exact(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> None:
    """Demand the same bits."""
    assert_same(model, feeds, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", TYPES)
def test_numbers_to_codes_by_tensor_axis_and_block(dtype: type) -> None:
    d = Draw()
    x = d.normal(3, 8, 6) * 40
    quantize = "QuantizeLinear"
    exact(*one_node(quantize, [x, number(0.3), number(3, dtype)], **STANDARD))
    zeros = d.below(9, 8, dtype=dtype)
    exact(*one_node(quantize, [x, d.scales(8), zeros], axis=1, **STANDARD))
    exact(*one_node(quantize, [x, d.scales(3), zeros[:3]], axis=-3, **STANDARD))
    blocks = [d.scales(3, 4, 6), d.below(9, 3, 4, 6, dtype=dtype)]
    exact(*one_node(quantize, [x, *blocks], axis=1, block_size=2, **STANDARD))
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    uneven = {"axis": 1, "block_size": 3, "output_dtype": kind}
    exact(*one_node(quantize, [x, d.scales(3, 3, 6)], **uneven, **STANDARD))
    half = [x.astype(np.float16), number(0.3, np.float16), number(3, dtype)]
    exact(*one_node(quantize, half, **STANDARD))


@pytest.mark.parametrize("dtype", TYPES)
def test_codes_to_numbers_by_tensor_axis_and_block(dtype: type) -> None:
    d = Draw()
    codes = d.codes(dtype, 3, 8, 6)
    dequantize = "DequantizeLinear"
    exact(*one_node(dequantize, [codes, number(0.3), number(3, dtype)], **STANDARD))
    zeros = d.below(9, 6, dtype=dtype)
    exact(*one_node(dequantize, [codes, d.scales(6), zeros], axis=-1, **STANDARD))
    blocks = [d.scales(3, 8, 2), d.below(9, 3, 8, 2, dtype=dtype)]
    exact(*one_node(dequantize, [codes, *blocks], axis=2, block_size=3, **STANDARD))
    half = [codes, number(0.3, np.float16), number(3, dtype)]
    exact(*one_node(dequantize, half, **STANDARD))


def test_ties_go_to_even_codes_and_what_is_too_large_is_saturated() -> None:
    ties = np.arange(-20, 20, dtype=np.float32) / 2
    huge = np.array([1e30, -1e30, np.inf, -np.inf], np.float32)
    for x in (ties, huge):
        exact(*one_node("QuantizeLinear", [x, number(1.0), number(5, np.uint8)], **STANDARD))


def test_a_scale_alone_and_int32() -> None:
    d = Draw()
    exact(*one_node("QuantizeLinear", [d.normal(3, 8), number(0.3)], **STANDARD))
    exact(*one_node("QuantizeLinear", [d.normal(3, 8), d.scales(1)], **STANDARD))
    sums = d.codes(np.int32, 3, 8)
    exact(*one_node("DequantizeLinear", [sums, d.scales(8)], axis=1, **STANDARD))


@pytest.mark.parametrize("dtype", [ml_dtypes.int4, ml_dtypes.uint4])
def test_constant_weights_of_four_bits_become_numbers(dtype: Any) -> None:
    d = Draw()
    low = -8 if dtype is ml_dtypes.int4 else 0
    codes = d.generator.integers(low, low + 16, (3, 8, 6)).astype(np.int8).astype(dtype)
    operands = [codes, d.scales(3, 4, 6), np.ones((3, 4, 6)).astype(dtype)]
    given = {"axis": 1, "block_size": 2, "constants": (0, 1, 2)}
    model, feeds = one_node("DequantizeLinear", operands, **given, **STANDARD)
    exact(model, feeds)


@pytest.mark.parametrize("kind", ["both signs", "zeros", "positive", "negative"])
def test_the_range_decides_scale_and_zero_point(kind: str) -> None:
    x = Draw().normal(3, 5)
    values = {"both signs": x, "zeros": 0 * x, "positive": abs(x), "negative": -abs(x)}
    exact(*one_node("DynamicQuantizeLinear", [values[kind]], results=3, **STANDARD))


def test_what_becomes_nan_is_refused() -> None:
    x = Draw().normal(3, 5)
    model, _ = one_node("QuantizeLinear", [x, number(1.0)], saturate=0, **STANDARD)
    with pytest.raises(ModelError, match="has saturate = 0"):
        rewritten(model)


@pytest.mark.parametrize(
    ("scales", "zeros", "given", "words"),
    [
        ((4,), (8,), {}, r"has scales of \[4\] .* along axis 1; expected \[8\]"),
        ((8,), (4,), {}, r"has zero points of \[4\]"),
        ((1,), (8,), {}, r"has zero points of \[8\] for one scale"),
        ((3,), (3,), {"block_size": 4}, r"has scales of \[3\] .* blocks of 4 .* \[3, 2, 6\]"),
        ((3, 3, 6), (3, 3, 6), {"block_size": 4}, r"expected \[3, 2, 6\]"),
        ((3, 2, 6), (3, 2, 1), {"block_size": 4}, r"has zero points of \[3, 2, 1\]"),
        ((3, 2, 6), (3, 2, 6), {"block_size": -3}, "has blocks of -3"),
    ],
)
@pytest.mark.parametrize("operator", ["QuantizeLinear", "DequantizeLinear"])
def test_scales_and_zero_points_are_one_for_each_element_or_block(
    operator: str, scales: tuple, zeros: tuple, given: dict[str, Any], words: str
) -> None:
    d = Draw()
    x = d.normal(3, 8, 6) if operator == "QuantizeLinear" else d.codes(np.uint8, 3, 8, 6)
    values = [x, d.scales(*scales), d.below(9, *zeros, dtype=np.uint8)]
    model, _ = one_node(operator, values, axis=1, **given, **STANDARD)
    with pytest.raises(ModelError, match=words):
        rewritten(model)


def test_our_kernels_give_the_same_codes() -> None:
    d = Draw()
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], axis=1),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"], axis=1),
        helper.make_node("DynamicQuantizeLinear", ["y"], ["codes", "scale", "zero"]),
    ]
    constants = {"s": d.scales(8), "z": d.below(9, 8, dtype=np.uint8)}
    feeds = {"x": d.normal(4, 8)}
    outputs = ["q", "y", "codes", "scale", "zero"]
    model = typed_model(nodes, feeds, constants, outputs=outputs)
    assert_computed(model, feeds, rtol=0, atol=0)
