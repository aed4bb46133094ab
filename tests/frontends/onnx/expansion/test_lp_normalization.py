"""LpNormalization and MeanVarianceNormalization beside ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from tests.frontends.onnx.running import assert_same, typed_model


@pytest.mark.parametrize("opset", [13, 18])
def test_vectors_are_divided_by_their_norm_and_zeros_stay(opset: int) -> None:
    x = np.random.default_rng(0).standard_normal((2, 4, 5)).astype(np.float32)
    x[0, :, 1] = x[1, 2] = 0
    nodes = [
        helper.make_node("LpNormalization", ["x"], ["last"]),
        helper.make_node("LpNormalization", ["x"], ["middle"], axis=1, p=1),
    ]
    assert_same(typed_model(nodes, {"x": x}, opset=opset), {"x": x})


def test_mean_and_variance_go_over_the_usual_axes_if_none_are_named() -> None:
    x = np.random.default_rng(1).standard_normal((2, 3, 4, 5)).astype(np.float32)
    node = helper.make_node("MeanVarianceNormalization", ["x"], ["y"])
    assert_same(typed_model([node], {"x": x}), {"x": x})
