"""What a network gives is what ONNX Runtime gives, in the shapes of the outputs."""

from __future__ import annotations

import numpy as np
from onnx import helper

from tests.frontends.onnx.models import make, run
from tests.models import lowered, two_cpus
from tvm_hetero.devices.target import device_target
from tvm_hetero.frontends.onnx import from_onnx
from tvm_hetero.passes.extract_tasks import extract_tasks
from tvm_hetero.pipeline.precision.network_runner import NetworkRunner


def test_outputs_that_are_views_or_constants_are_outputs_too() -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["y"]),
        helper.make_node("Reshape", ["y", "flat"], ["z"]),
        helper.make_node("Reshape", ["x", "flat"], ["v"]),
        helper.make_node("Add", ["w", "w"], ["c"]),
    ]
    constants = {
        "w": np.arange(9, dtype=np.float32).reshape(3, 3),
        "flat": np.array([-1], np.int64),
    }
    model = make(nodes, {"x": [2, 3]}, ["z", "y", "c", "v"], constants)
    platform = two_cpus()
    tasks = extract_tasks(lowered(from_onnx(model), platform))
    runner = NetworkRunner(tasks, {}, device_target(platform.devices[0]))
    feeds = {"x": np.arange(6, dtype=np.float32).reshape(2, 3)}
    for found, expected in zip(runner.outputs(feeds), run(model, feeds), strict=True):
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=1e-6)
