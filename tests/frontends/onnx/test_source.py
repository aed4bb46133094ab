from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.frontends.onnx.models import make, run, value
from tvm_hetero.frontends.onnx import from_onnx
from tvm_hetero.frontends.onnx.source import note_source, source_model
from tvm_hetero.passes.attributes import SOURCE


@pytest.mark.parametrize("factor", [3, [[2, 3], [4, 5]], np.array([[1, 2]], np.int64)])
def test_the_model_is_found_again_with_its_values(tmp_path: Path, factor: object) -> None:
    nodes = [
        helper.make_node("Cast", ["k"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["x", "f"], ["y"]),
    ]
    model = make(nodes, {"x": [2, 2]}, ["y"])
    model.graph.input.append(value("k", [] if isinstance(factor, int) else None, TensorProto.INT64))
    file, values = tmp_path / "net.onnx", {"k": factor}
    onnx.save(model, file)
    module = note_source(from_onnx(file, values=values), file, {}, values, None)
    found = source_model(json.loads(module["main"].attrs[SOURCE]))
    assert [i.name for i in found.graph.input] == ["x", "k"]
    x = np.ones((2, 2), np.float32)
    np.testing.assert_array_equal(run(found, {"x": x})[0], np.broadcast_to(factor, (2, 2)))
    np.testing.assert_array_equal(numpy_helper.to_array(found.graph.initializer[-1]), factor)
