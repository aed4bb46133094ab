"""Small networks of open dimensions, as ONNX files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from tests.models import two_cpus
from tvm_hetero.platform import Platform

Arrays = dict[str, np.ndarray]


def _weight(name: str, *shape: int) -> onnx.TensorProto:
    rng = np.random.default_rng(len(name) + sum(shape))
    scaled = rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))
    return numpy_helper.from_array(scaled.astype("float32"), name)


def _save(
    path: Path,
    nodes: list[onnx.NodeProto],
    inputs: dict[str, list[int | str]],
    weights: list[onnx.TensorProto],
) -> Path:
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, dims) for n, dims in inputs.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        weights,
    )
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, ir_version=8, opset_imports=opset), path)
    return path


def write_conv_net(path: Path) -> Path:
    """A reader of lines of text in small: two branches of convolutions, a score for each column."""
    node = helper.make_node
    nodes = [
        node("Conv", ["x", "w0"], ["a"], pads=[1, 1, 1, 1]),
        node("Relu", ["a"], ["b"]),
        node("Conv", ["b", "w1"], ["left"], pads=[1, 1, 1, 1]),
        node("Conv", ["b", "w2"], ["right"]),
        node("Add", ["left", "right"], ["sum"]),
        node("ReduceMean", ["sum"], ["mean"], axes=[2], keepdims=0),
        node("Transpose", ["mean"], ["columns"], perm=[0, 2, 1]),
        node("MatMul", ["columns", "w3"], ["scores"]),
        node("Softmax", ["scores"], ["y"], axis=-1),
    ]
    weights = [_weight("w0", 16, 3, 3, 3), _weight("w1", 16, 16, 3, 3), _weight("w2", 16, 16, 1, 1),
               _weight("w3", 16, 10)]  # fmt: skip
    return _save(path, nodes, {"x": [1, 3, 8, "width"]}, weights)


def write_attention_net(path: Path) -> Path:
    """A head of attention with a mask: two inputs whose lengths are one symbol."""
    node = helper.make_node
    nodes = [
        node("MatMul", ["in/x", "wq"], ["q"]),
        node("MatMul", ["in/x", "wk"], ["k"]),
        node("MatMul", ["in/x", "wv"], ["v"]),
        node("Transpose", ["k"], ["kt"], perm=[0, 2, 1]),
        node("MatMul", ["q", "kt"], ["scores"]),
        node("Add", ["scores", "mask"], ["masked"]),
        node("Softmax", ["masked"], ["shares"], axis=-1),
        node("MatMul", ["shares", "v"], ["mixed"]),
        node("Add", ["mixed", "in/x"], ["y"]),
    ]
    weights = [_weight(name, 16, 16) for name in ("wq", "wk", "wv")]
    inputs: dict[str, list[int | str]] = {
        "in/x": ["batch", "length", 16],
        "mask": [1, 1, "length"],
    }
    return _save(path, nodes, inputs, weights)


def expected(path: Path, inputs: Arrays) -> np.ndarray:
    """What ONNX Runtime computes."""
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session.run(None, inputs)[0]


def platform() -> Platform:
    """Two CPU places with figures for the roofline."""
    both = two_cpus()
    devices = tuple(
        replace(device, peak_flops=rate, bandwidth=rate)
        for device, rate in zip(both.devices, (2e10, 1e10), strict=True)
    )
    return replace(both, devices=devices)
