"""MatMulInteger and QLinearMatMul, bit for bit those of ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from tests.frontends.onnx.contributed import Draw, assert_same, number, one_node
from tests.frontends.onnx.running import assert_same as assert_computed
from tests.frontends.onnx.running import typed_model

KINDS = [(np.uint8, np.uint8), (np.uint8, np.int8), (np.int8, np.int8)]
STANDARD: dict[str, Any] = {"domain": "", "version": 21}
EXACT = {"rtol": 0.0, "atol": 0.0}


@pytest.mark.parametrize(("left", "right"), KINDS)
@pytest.mark.parametrize("depth", [20, 700, 5000])
def test_sums_are_exact_however_many_products_they_have(
    left: type, right: type, depth: int
) -> None:
    d = Draw()
    zeros = [d.codes(left), d.codes(right)]
    plain = [d.codes(left, 3, depth), d.codes(right, depth, 4), *zeros]
    assert_same(*one_node("MatMulInteger", plain, constants=(1, 3), **STANDARD), **EXACT)
    batched = [d.codes(left, 2, 3, depth), d.codes(right, 2, depth, 4), *zeros]
    assert_same(*one_node("MatMulInteger", batched, **STANDARD), **EXACT)


def test_zero_points_for_each_row_and_column_or_none() -> None:
    d = Draw()
    sides = [d.codes(np.uint8, 3, 20), d.codes(np.uint8, 20, 4)]
    columns = [*sides, d.codes(np.uint8, 1), d.codes(np.uint8, 4)]
    assert_same(*one_node("MatMulInteger", columns, constants=(1, 3), **STANDARD), **EXACT)
    assert_same(*one_node("MatMulInteger", sides, **STANDARD), **EXACT)


@pytest.mark.parametrize(("left", "right"), KINDS)
@pytest.mark.parametrize("depth", [20, 5000])
def test_products_are_scaled_and_rounded_once(left: type, right: type, depth: int) -> None:
    d = Draw()
    a = [d.codes(left, 3, depth), number(0.02), d.codes(left)]
    b = [d.codes(right, depth, 4), number(0.03), d.codes(right)]
    operands = [*a, *b, number(depth * 0.03), d.codes(left)]
    model = one_node("QLinearMatMul", operands, constants=tuple(range(1, 8)), **STANDARD)
    assert_same(*model, **EXACT)


def test_our_kernels_give_the_same_codes() -> None:
    d = Draw()
    node = helper.make_node("QLinearMatMul", ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz"], ["y"])
    constants = {
        "xs": number(0.02), "xz": d.codes(np.uint8), "w": d.codes(np.int8, 700, 40),
        "ws": number(0.03), "wz": d.codes(np.int8), "ys": number(20.0), "yz": d.codes(np.uint8),
    }  # fmt: skip
    feeds = {"x": d.codes(np.uint8, 30, 700)}
    assert_computed(typed_model([node], feeds, constants), feeds)
