"""BitCast beside NumPy's views."""

from __future__ import annotations

import numpy as np
from onnx import helper

from tests.frontends.onnx.running import Array, assert_same, typed_model

PAIRS = [("float32", "int32"), ("int32", "uint32"), ("int64", "float64"), ("float16", "uint16")]


def test_bits_are_read_as_another_type() -> None:
    rng = np.random.default_rng(0)
    nodes, feeds, wanted = [], {}, []
    for given, kind in PAIRS:
        x: Array = (100 * rng.standard_normal((2, 5))).astype(given)
        feeds[given] = x
        to = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
        nodes.append(helper.make_node("BitCast", [given], [f"y_{given}"], to=to))
        wanted.append(x.view(kind))
    assert_same(typed_model(nodes, feeds, opset=26), feeds, wanted)


def test_truth_values_are_bytes() -> None:
    x = np.array([True, False, True])
    to = helper.np_dtype_to_tensor_dtype(np.dtype("uint8"))
    node = helper.make_node("BitCast", ["x"], ["y"], to=to)
    assert_same(typed_model([node], {"x": x}, opset=26), {"x": x}, [x.view("uint8")])
