"""TopK, CumSum and CumProd beside ONNX Runtime and onnx's reference."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from tests.frontends.onnx.models import run
from tests.frontends.onnx.running import Array, assert_same, evaluate, typed_model
from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.onnx import from_onnx

# Small whole numbers, so that many are equal, with what is no number among them.
TIED = np.random.default_rng(0).integers(-5, 5, (3, 40, 7)).astype(np.float32)
TIED[0, 3, 2] = TIED[1, 5:9, 4] = np.nan
TIED[2, 0, 0], TIED[2, 7, 0], TIED[2, 8, 0] = np.inf, -np.inf, -0.0

# Axis, how many, whether the largest.
TOPS = [(1, 5, 1), (1, 5, 0), (1, 40, 1), (-1, 7, 0), (0, 1, 1), (1, 33, 0)]


def test_the_first_k_come_in_order_ties_by_place_and_nan_as_the_largest() -> None:
    constants = {f"k{n}": np.array([kept]) for n, (_, kept, _) in enumerate(TOPS)}
    nodes = [
        helper.make_node("TopK", ["x", f"k{n}"], [f"v{n}", f"i{n}"], axis=axis, largest=first)
        for n, (axis, _, first) in enumerate(TOPS)
    ]
    assert_same(typed_model(nodes, {"x": TIED}, constants), {"x": TIED})


@pytest.mark.parametrize("dtype", ["int64", "uint8", "float64", "float16", "bfloat16"])
def test_the_first_k_of_any_type_are_found(dtype: str) -> None:
    x = np.random.default_rng(1).integers(0, 9, (2, 50)).astype(dtype)
    node = helper.make_node("TopK", ["x", "k"], ["v", "i"])
    model = typed_model([node], {"x": x}, {"k": np.array([20])}, opset=24)
    places = np.argsort(-x.astype(np.float64), axis=1, kind="stable")[:, :20]
    assert_same(model, {"x": x}, [np.take_along_axis(x, places, 1), places])


@pytest.mark.parametrize("opset", [1, 10, 11])
def test_old_forms_take_the_k_that_they_name(opset: int) -> None:
    x = TIED[:, :, 0]
    given = {"k": np.array([3])} if opset > 1 else {}
    node = helper.make_node(
        "TopK", ["x", *given], ["v", "i"], axis=1, **({} if given else {"k": 3})
    )
    model = typed_model([node], {"x": x}, given, opset)
    model.ir_version = 6
    (wanted, places) = run(typed_model(
        [helper.make_node("TopK", ["x", "k"], ["v", "i"], axis=1)], {"x": x}, {"k": np.array([3])}
    ), {"x": x})  # fmt: skip
    assert_same(model, {"x": x}, [wanted, places])


def test_a_k_that_depends_on_data_is_refused() -> None:
    node = helper.make_node("TopK", ["x", "k"], ["v", "i"], axis=1, name="top")
    model = typed_model([node], {"x": TIED, "k": np.array([3])})
    with pytest.raises(ModelError, match=r"'top' \(TopK\) takes its number of .* --value k="):
        from_onnx(model)


def test_running_sums_and_products_go_both_ways() -> None:
    x = np.random.default_rng(2).standard_normal((2, 9, 5)).astype(np.float32)
    whole = np.arange(1, 9)
    nodes = []
    for operator in ("CumSum", "CumProd"):
        for exclusive, reverse in ((0, 0), (1, 0), (0, 1), (1, 1)):
            attributes = {"exclusive": exclusive, "reverse": reverse}
            name = f"{operator}{exclusive}{reverse}"
            nodes += [
                helper.make_node(operator, ["x", "one"], [name], **attributes),
                helper.make_node(operator, ["n", "zero"], [f"{name}_whole"], **attributes),
            ]
    axes = {"zero": np.array(0), "one": np.array(-2)}
    feeds: dict[str, Array] = {"x": x, "n": whole}
    model = typed_model(nodes, feeds, axes, opset=26)
    assert_same(model, feeds, evaluate(model, feeds))


def test_determinants_of_matrices_that_need_their_rows_swapped() -> None:
    rng = np.random.default_rng(3)
    x = rng.standard_normal((2, 3, 5, 5)).astype(np.float32)
    x[0, 0, 0, 0] = x[0, 1, 1] = 0  # a pivot of 0, and a row of zeros
    x[1, 2, 3] = x[1, 2, 4]
    node = helper.make_node("Det", ["x"], ["y"])
    assert_same(typed_model([node], {"x": x}), {"x": x}, [np.linalg.det(x)], rtol=1e-4, atol=1e-5)
