"""Products of ones in named places are look-ups of rows, with the same numbers."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.frontends.onnx.running import Array, assert_same, typed_model
from tvm_hetero.frontends.onnx import from_onnx

DEPTH, WIDTH = 7, 5
TABLE = np.random.default_rng(0).standard_normal((DEPTH, WIDTH)).astype(np.float32)
INDICES = np.array([[0, 6, 3, -1], [7, 2, 2, 100]])
ROWS = np.where(
    ((INDICES >= 0) & (INDICES < DEPTH))[..., None], TABLE[np.clip(INDICES, 0, DEPTH - 1)], 0
).astype(np.float32)


def compared(kind: str, *, repeated: bool) -> tuple[list, dict[str, Array]]:
    """Nodes as JAX's ``one_hot`` has them, and their constants."""
    column = "spread" if repeated else "column"
    nodes = [helper.make_node("Unsqueeze", ["x", "last"], ["column"])]
    if repeated:
        nodes.append(helper.make_node("Expand", ["column", "whole"], ["spread"]))
    nodes += [
        helper.make_node("Equal", [column, "places"], ["hit"]),
        helper.make_node("Cast", ["hit"], ["ones"], to=TensorProto.FLOAT),
        helper.make_node("MatMul", ["ones", "table"], ["y"]),
    ]
    constants = {
        "last": np.array([2]),
        "whole": np.array([2, 4, DEPTH]),
        "places": np.arange(DEPTH, dtype=kind).reshape(1, 1, DEPTH),
        "table": TABLE,
    }
    return nodes, constants


def operators(model) -> str:
    return str(from_onnx(model)["main"])


@pytest.mark.parametrize("repeated", [False, True], ids=["compared", "repeated and compared"])
@pytest.mark.parametrize("kind", ["int32", "int64"])
def test_rows_are_looked_up_and_those_out_of_range_are_zero(kind: str, repeated: bool) -> None:
    nodes, constants = compared(kind, repeated=repeated)
    model = typed_model(nodes, {"x": INDICES.astype(kind)}, constants)
    assert_same(model, {"x": INDICES.astype(kind)}, [ROWS])
    assert "matmul" not in operators(model)


def test_one_hot_before_a_product_is_a_look_up_too() -> None:
    nodes = [
        helper.make_node("OneHot", ["x", "depth", "values"], ["ones"]),
        helper.make_node("MatMul", ["ones", "table"], ["y"]),
    ]
    constants = {
        "depth": np.array([DEPTH]),
        "values": np.array([0, 1], np.float32),
        "table": TABLE,
    }
    # Of OneHot alone, -1 is the last place.
    wanted = np.where((INDICES == -1)[..., None], TABLE[-1], ROWS).astype(np.float32)
    model = typed_model(nodes, {"x": INDICES}, constants)
    assert_same(model, {"x": INDICES}, [wanted])
    assert "matmul" not in operators(model)


@pytest.mark.parametrize("what", ["infinite", "other places", "not one"])
def test_products_that_are_no_rows_stay_products(what: str) -> None:
    nodes, constants = compared("int64", repeated=False)
    if what == "infinite":  # zero times it is NaN
        constants["table"] = np.full_like(TABLE, np.inf)
    elif what == "other places":
        constants["places"] = constants["places"][..., ::-1].copy()
    else:
        nodes[-2] = helper.make_node("Where", ["hit", "two", "zero"], ["ones"])
        constants |= {"two": np.array(2, np.float32), "zero": np.array(0, np.float32)}
    assert "matmul" in operators(typed_model(nodes, {"x": INDICES}, constants))
