"""Nodes of LSTM, GRU and RNN with random weights: by our kernels, and by ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnxruntime
import tvm
from numpy.typing import NDArray
from onnx import TensorProto, helper
from tvm import relax

from tests.kernels.helpers import AVX512, scheduled
from tvm_hetero.kernels.cpu.compilation import PIPELINE
from tvm_hetero.kernels.recurrent.emit import gru, lstm, rnn
from tvm_hetero.kernels.recurrent.node import RecurrentAttributes, RecurrentOperands
from tvm_hetero.kernels.recurrent.operands import constant_of
from tvm_hetero.kernels.recurrent.recurrence import GATES, LSTM
from tvm_hetero.passes.lower_to_tasks import LowerToTasks

Array = NDArray[Any]
WEIGHTS = ("w", "r", "b", "p")
_EMIT = {"LSTM": lstm, "GRU": gru, "RNN": rnn}
_ORDER = ("x", "w", "r", "b", "sequence_lens", "initial_h", "initial_c", "p")


@dataclass(frozen=True)
class Node:
    """A node: which optional inputs it has (b, h, c, p), its lengths, and its attributes."""

    cell: str
    steps: int = 4
    batch: int = 2
    width: int = 3
    hidden: int = 5
    given: str = "b"
    lengths: Sequence[int] | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)
    dtype: str = "float32"

    @property
    def directions(self) -> int:
        return 2 if self.attributes.get("direction") == "bidirectional" else 1

    def operands(self, seed: int = 0) -> dict[str, Array]:
        """Arrays of all inputs that the node has, for layout 0."""
        rng, d, gates = np.random.default_rng(seed), self.directions, GATES[self.cell]
        shapes = {
            "x": [self.steps, self.batch, self.width],
            "w": [d, gates * self.hidden, self.width],
            "r": [d, gates * self.hidden, self.hidden],
            "b": [d, 2 * gates * self.hidden],
            "initial_h": [d, self.batch, self.hidden],
            "initial_c": [d, self.batch, self.hidden],
            "p": [d, 3 * self.hidden],
        }
        names = ["x", "w", "r", *(n for n in list(shapes)[3:] if n[-1] in self.given)]
        found = {n: (rng.standard_normal(shapes[n]) * 0.6).astype(self.dtype) for n in names}
        found["r"] /= np.sqrt(self.hidden).astype(self.dtype)  # or errors grow from step to step
        if self.lengths is not None:
            found["sequence_lens"] = np.array(self.lengths, np.int32)
        return found

    def module(self, operands: Mapping[str, Array], constant: Sequence[str] = WEIGHTS) -> Any:
        """A module whose ``main`` takes what is not constant and returns all results."""
        bb = relax.BlockBuilder()
        inputs = {
            name: relax.Var(name, relax.TensorType(a.shape, str(a.dtype)))
            for name, a in operands.items()
            if name not in constant
        }
        given = {n: inputs[n] if n in inputs else constant_of(a) for n, a in operands.items()}
        with bb.function("main", list(inputs.values())):
            with bb.dataflow():
                attributes = RecurrentAttributes(**self.attributes)
                results = _EMIT[self.cell](bb, RecurrentOperands(**given), attributes)
                out = bb.emit_output(relax.Tuple(list(results)))
            bb.emit_func_output(out)
        return bb.get()


def run(mod: Any, operands: Mapping[str, Array], target: Any = AVX512) -> list[Array]:
    """The results of a module whose kernels are scheduled for a target."""
    ready = scheduled(LowerToTasks([target])(mod), target)
    vm = relax.VirtualMachine(tvm.compile(ready, target, tir_pipeline=PIPELINE), tvm.cpu())
    names = [param.name for param in mod["main"].params]
    results = vm["main"](*(tvm.runtime.tensor(operands[name]) for name in names))
    return [result.numpy() for result in results]


def onnx_node(node: Node, operands: Mapping[str, Array]) -> onnx.ModelProto:
    """The node as a model of ONNX, all operands its inputs."""
    order = _ORDER if node.cell == LSTM else _ORDER[:6]
    outputs = ["y", "y_h", "y_c"] if node.cell == LSTM else ["y", "y_h"]
    names = [name if name in operands else "" for name in order]
    attributes = {**node.attributes, "hidden_size": node.hidden}
    made = helper.make_node(node.cell, names, outputs, **attributes)
    kinds = {"float32": TensorProto.FLOAT, "int32": TensorProto.INT32}
    inputs = [
        helper.make_tensor_value_info(name, kinds[str(a.dtype)], a.shape)
        for name, a in operands.items()
    ]
    results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
    graph = helper.make_graph([made], "recurrent", inputs, results)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)


def expected(node: Node, operands: Mapping[str, Array]) -> list[Array]:
    """What ONNX Runtime computes."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    model = onnx_node(node, operands).SerializeToString()
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return list(session.run(None, dict(operands)))


def check(node: Node, target: Any = AVX512, constant: Sequence[str] = WEIGHTS) -> None:
    """Assert that all results are ONNX Runtime's."""
    operands = node.operands()
    found = run(node.module(operands, constant), operands, target)
    for ours, theirs in zip(found, expected(node, operands), strict=True):
        assert ours.shape == theirs.shape
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5 * max(1, abs(theirs).max()))
