"""A concatenation of very many operands is joined part by part."""

from __future__ import annotations

import numpy as np
from onnx import helper

from tests.frontends.onnx.expansion.test_walk import operators, same
from tests.frontends.onnx.running import assert_same, typed_model
from tvm_hetero.frontends.onnx.expansion.long_concats import MOST_OPERANDS


def test_what_a_long_loop_gives_is_joined_in_parts() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    names = [f"p{i}" for i in range(MOST_OPERANDS + 44)]
    nodes = [
        helper.make_node("Split", ["x"], ["a", "b", "c"], axis=1, num_outputs=3),
        helper.make_node("Neg", ["b"], ["d"]),
        helper.make_node("Concat", ["abcd"[i % 4] for i in range(len(names))], ["y"], axis=-1),
    ]
    model = typed_model(nodes, {"x": x})
    assert operators(same(model, {"x": x})).count("Concat") == 4
    assert_same(model, {"x": x})
