"""Small ONNX models for tests, and ONNX Runtime to judge them by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import onnxruntime
from onnx import NodeProto, TensorProto, helper, numpy_helper

Shape = Sequence[int | str | None] | None


def value(name: str, shape: Shape, kind: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    """Return a typed tensor value."""
    return helper.make_tensor_value_info(name, kind, shape)


def make(
    nodes: Sequence[NodeProto],
    inputs: Mapping[str, Shape],
    outputs: Sequence[str],
    constants: Mapping[str, np.ndarray] | None = None,
    opset: int = 13,
) -> onnx.ModelProto:
    """Return a model; the shapes of its outputs are left to inference."""
    graph = helper.make_graph(
        list(nodes),
        "test",
        [value(name, shape) for name, shape in inputs.items()],
        [value(name, None) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()],
    )
    for output in graph.output:
        output.type.tensor_type.ClearField("shape")
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def conv_relu(dim: int | str | None = 1) -> onnx.ModelProto:
    """Return ``y = relu(conv(x, w, b))`` on (dim, 3, 8, 8)."""
    generator = np.random.default_rng(0)
    return make(
        [
            helper.make_node("Conv", ["x", "w", "b"], ["c"], name="first", pads=[1, 1, 1, 1]),
            helper.make_node("Relu", ["c"], ["y"], name="second"),
        ],
        {"x": [dim, 3, 8, 8]},
        ["y"],
        {
            "w": generator.standard_normal((4, 3, 3, 3)).astype(np.float32),
            "b": generator.standard_normal(4).astype(np.float32),
        },
    )


def two_branches() -> onnx.ModelProto:
    """Two branches of two convolutions that are joined; its output has an awkward name."""
    rng = np.random.default_rng(0)
    nodes, weights = [], []
    for branch in ("left", "right"):
        value = "x"
        for layer in (1, 2):
            name = f"{branch}{layer}"
            kernel = rng.standard_normal((8, 8, 3, 3)).astype(np.float32) / 9
            weights.append(numpy_helper.from_array(kernel, f"{name}_w"))
            nodes.append(helper.make_node("Conv", [value, f"{name}_w"], [name], pads=[1] * 4))
            value = f"{name}_relu"
            nodes.append(helper.make_node("Relu", [name], [value]))
    ends = ["left2_relu", "right2_relu"]
    nodes.append(helper.make_node("Concat", ends, ["net/out:0"], axis=1))
    shape, out_shape = [1, 8, 12, 12], [1, 16, 12, 12]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("net/out:0", TensorProto.FLOAT, out_shape)],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def random_feeds(model: onnx.ModelProto, seed: int = 0) -> dict[str, np.ndarray]:
    """Return normal float32 values for every true input."""
    constants = {t.name for t in model.graph.initializer}
    generator = np.random.default_rng(seed)
    return {
        i.name: generator.standard_normal(
            [d.dim_value for d in i.type.tensor_type.shape.dim], dtype=np.float32
        )
        for i in model.graph.input
        if i.name not in constants
    }


def run(model: onnx.ModelProto, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """Return the outputs by ONNX Runtime on one thread, its own rewrites off."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return list(session.run(None, dict(feeds)))
