"""A module that comes back from a child is the module, or it is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest
from onnx import helper
from tvm_ffi import structural_equal

from tests.frontends.onnx.running import typed_model
from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.onnx import from_onnx
from tvm_hetero.frontends.onnx.conversion.module_answer import pack_module, unpack_module


def test_it_is_the_same_and_each_parameter_needs_its_weight() -> None:
    weight = np.random.default_rng(0).standard_normal((48, 40)).astype(np.float32)
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    module = from_onnx(typed_model([node], {"x": weight[:3, :].T}, {"w": weight[:3]}))
    large = from_onnx(typed_model([node], {"x": weight.T}, {"w": weight}))
    for given, weights in ((module, 0), (large, 1)):
        sections = pack_module(given, {})
        origins = json.loads(bytes(sections[0]))
        assert len(origins) == weights
        assert structural_equal(unpack_module(sections, {}), given)
    sent = [json.dumps(origins * 3).encode(), sections[1], *sections[2:] * 3]
    with pytest.raises(ModelError, match="3 weights for 2 parameters"):
        unpack_module(sent, {})
