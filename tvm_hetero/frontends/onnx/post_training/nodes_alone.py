"""Each kind of node by itself, in float32 and in bytes: two models that measure what each takes.

    float32     x -> Conv -> y
    bytes       codes of x -> DequantizeLinear -> Conv -> QuantizeLinear -> codes of y

as they stand in a network whose neighbours are computed alike. Nodes with equal attributes and
equal shapes are one kind. Weights are those of its first node; scales are any, for no time depends
on them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper

from tvm_hetero.frontends.onnx.model.mutable_graph import OnnxGraph, attribute

_SCALE, _ZERO = np.float32(1 / 64), np.uint8(128)
_MOST = 127
# Of weights: what divides has to be a number, times `_SCALE` too.
_LEAST_SCALE = np.finfo(np.float32).tiny / _SCALE


@dataclass(frozen=True)
class NodesAlone:
    """Kinds of nodes, each one branch of two models: input i is read by it alone.

    Attributes
    ----------
    kinds : for each branch the names of its nodes.
    plain, codes : the models in float32 and in bytes.
    """

    kinds: tuple[tuple[str, ...], ...]
    plain: onnx.ModelProto
    codes: onnx.ModelProto


def nodes_alone(model: onnx.ModelProto, nodes: Sequence[NodeProto]) -> NodesAlone:
    """Return the kinds of some nodes of a prepared model.

    Parameters
    ----------
    model : onnx.ModelProto
        As `prepare_model` returns it.
    nodes : sequence of NodeProto
        Among its `quantizable_nodes`, at least one.
    """
    graph = OnnxGraph(model)
    known = graph.known_values()
    kinds: dict[tuple[object, ...], list[NodeProto]] = {}
    for node in nodes:
        found = known.get(node.input[0])
        if found is not None and found.dims is not None:
            constants = [graph.shape(name) for name in node.input[1:] if name]
            settings = tuple(sorted(a.SerializeToString() for a in node.attribute))
            key = (node.op_type, found.dims, *constants, *settings)
            kinds.setdefault(key, []).append(node)
    plain, codes = _Branches(model), _Branches(model)
    for i, alike in enumerate(kinds.values()):
        dims = known[alike[0].input[0]].dims or ()
        plain.add_plain(i, graph, alike[0], dims)
        codes.add_codes(i, graph, alike[0], dims)
    names = tuple(tuple(node.name for node in alike) for alike in kinds.values())
    return NodesAlone(names, plain.model(), codes.model())


class _Branches:
    """A model of branches that share nothing."""

    def __init__(self, like: onnx.ModelProto) -> None:
        self._like = like
        self._graph = onnx.GraphProto(name="nodes_alone")

    def add_plain(self, i: int, graph: OnnxGraph, node: NodeProto, dims: Sequence[int]) -> None:
        """Add a node of float32."""
        operands = [self._constant(f"c{i}_{k}", a) for k, a in enumerate(_operands(graph, node))]
        self._node(node, [self._input(i, TensorProto.FLOAT, dims), *operands], f"y{i}")
        self._output(i, TensorProto.FLOAT)

    def add_codes(self, i: int, graph: OnnxGraph, node: NodeProto, dims: Sequence[int]) -> None:
        """Add a node between codes."""
        scale, zero = self._constant(f"s{i}", _SCALE), self._constant(f"z{i}", _ZERO)
        operands = [self._dequantized(i, [self._input(i, TensorProto.UINT8, dims), scale, zero])]
        weights, *bias = _operands(graph, node)
        axis = _output_axis(node)
        codes, factors = _codes(weights, axis)
        names = [self._constant(f"{what}{i}", a) for what, a in (("w", codes), ("t", factors))]
        operands.append(self._dequantized(f"{i}_w", names, axis=axis))
        if bias:
            steps = np.round(bias[0] / (_SCALE * factors)).clip(-(2**30), 2**30).astype(np.int32)
            column = [self._constant(f"b{i}", steps), self._constant(f"u{i}", _SCALE * factors)]
            operands.append(self._dequantized(f"{i}_b", column, axis=0))
        self._node(node, operands, f"r{i}")
        self._graph.node.append(
            helper.make_node("QuantizeLinear", [f"r{i}", scale, zero], [f"y{i}"])
        )
        self._output(i, TensorProto.UINT8)

    def model(self) -> onnx.ModelProto:
        """Return the model."""
        made = onnx.ModelProto(ir_version=self._like.ir_version, graph=self._graph)
        made.opset_import.extend(self._like.opset_import)
        return made

    def _input(self, i: int, kind: int, dims: Sequence[int]) -> str:
        self._graph.input.append(helper.make_tensor_value_info(f"x{i}", kind, dims))
        return f"x{i}"

    def _output(self, i: int, kind: int) -> None:
        self._graph.output.append(helper.make_tensor_value_info(f"y{i}", kind, None))

    def _constant(self, name: str, value: np.ndarray | np.generic) -> str:
        self._graph.initializer.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def _dequantized(self, name: object, operands: list[str], **attributes: int) -> str:
        node = helper.make_node("DequantizeLinear", operands, [f"d{name}"], **attributes)
        self._graph.node.append(node)
        return f"d{name}"

    def _node(self, like: NodeProto, operands: list[str], output: str) -> None:
        node = helper.make_node(like.op_type, operands, [output])
        node.attribute.extend(like.attribute)
        self._graph.node.append(node)


def _operands(graph: OnnxGraph, node: NodeProto) -> list[np.ndarray]:
    """Return the constant operands."""
    return [graph.array(name) for name in node.input[1:] if name]


def _output_axis(node: NodeProto) -> int:
    """Return the dimension of the weights along which outputs lie."""
    return 0 if node.op_type == "Conv" or attribute(node, "transB", 0) else 1


def _codes(weights: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """Return signed bytes and their scales, one by output."""
    others = tuple(i for i in range(weights.ndim) if i != axis)
    most = np.abs(weights).max(axis=others, keepdims=True)
    scales = np.maximum(np.where(most > 0, most, 1) / _MOST, _LEAST_SCALE).astype(np.float32)
    return np.round(weights / scales).astype(np.int8), scales.reshape(-1)
