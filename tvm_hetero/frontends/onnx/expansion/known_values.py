"""What is known of each value while the walk goes over a graph: its type, and maybe its data.

Types are found node by node (by onnx's `infer_node_outputs`), so that those of a node's
operands are there when the node is met, also where other nodes are put into its place.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx import GraphProto, NodeProto, TensorProto, TypeProto, ValueInfoProto, numpy_helper

from tvm_hetero.frontends.onnx.model.inner_graphs import node_reads
from tvm_hetero.frontends.onnx.model.mutable_graph import Known, OnnxGraph, element_type

_SMALL = 1024
"""Constants up to this many elements take part in inference: shapes, axes, scales and the like."""


class KnownValues:
    """Types of values, constants among them, and the lists of tensors that sequences are.

    Attributes
    ----------
    sequences : dict of str to list of str
        For a sequence, the names of its elements.  There is no sequence at run time.
    types : dict of str to TypeProto
        Of inputs and of what nodes make, as far as they are known.
    choices : dict of str to str
        Conditions that are not known, with the node that chooses by them, in words.
    makers : dict of str to NodeProto
        The node that is kept to make a value.
    nothings : set of str
        Optionals that hold nothing.
    """

    def __init__(self, graph: OnnxGraph) -> None:
        self._graph = graph
        self.types: dict[str, TypeProto] = {value.name: value.type for value in graph.inputs}
        self.sequences: dict[str, list[str]] = {}
        self.choices: dict[str, str] = {}
        self.makers: dict[str, NodeProto] = {}
        self.nothings: set[str] = set()

    def type_of(self, name: str) -> TypeProto | None:
        """Return the type of a value; None where nothing is known."""
        constant = self._graph.constants.get(name)
        if constant is not None:
            kind = element_type(constant)
            return onnx.helper.make_tensor_type_proto(kind, self._graph.shape(name))
        return self.types.get(name)

    def known(self, name: str) -> Known | None:
        """Return element type and dimensions of a tensor; None where the type is not known."""
        found = self.type_of(name)
        if found is None or not found.HasField("tensor_type"):
            return None
        return Known(_static_dims(found), found.tensor_type.elem_type)

    def rank(self, name: str) -> int | None:
        """Return the number of dimensions of a tensor, None where it is not known."""
        found = self.type_of(name)
        if found is None or not found.tensor_type.HasField("shape"):
            return None
        return len(found.tensor_type.shape.dim)

    def state(self, name: str, found: TypeProto) -> None:
        """Note the type of a value."""
        self.types[name] = found

    def infer(self, node: NodeProto) -> dict[str, TypeProto]:
        """Return the types of what a node makes, by name, as far as onnx finds them.

        Raises
        ------
        onnx.shape_inference.InferenceError
            The operands do not fit the operator.
        """
        operands = [name for name in node.input if name]
        types = {name: self.type_of(name) for name in operands}
        if any(found is None for found in types.values()):
            return {}
        schema = onnx.defs.get_schema(node.op_type, self._graph.opset, "")
        data = {name: self._tensor(name) for name in operands if self._is_small(name)}
        found = onnx.shape_inference.infer_node_outputs(
            schema,
            node,
            types,
            data,
            opset_imports=[onnx.helper.make_opsetid("", self._graph.opset)],
        )
        shaped = all(name in found and _has_shape(found[name]) for name in node.output if name)
        if not shaped and (schema.has_function or schema.has_context_dependent_function):
            return self._infer_by_body(node, types, data) or dict(found)
        return dict(found)

    def _infer_by_body(
        self,
        node: NodeProto,
        types: Mapping[str, TypeProto | None],
        data: Mapping[str, TensorProto],
    ) -> dict[str, TypeProto]:
        """Return what onnx finds by the body of a function (GreaterOrEqual before opset 16)."""
        graph = onnx.helper.make_graph(
            [node],
            "one_node",
            [onnx.ValueInfoProto(name=name, type=found) for name, found in types.items()],
            [onnx.ValueInfoProto(name=name) for name in node.output if name],
        )
        for name, tensor in data.items():
            graph.initializer.add().CopyFrom(tensor)
            graph.initializer[-1].name = name
        opset = [onnx.helper.make_opsetid("", self._graph.opset)]
        model = onnx.helper.make_model(graph, opset_imports=opset)
        outputs = onnx.shape_inference.infer_shapes(model).graph.output
        return {value.name: value.type for value in outputs if value.HasField("type")}

    def infer_graph(self, body: GraphProto, given: Sequence[TypeProto]) -> list[TypeProto]:
        """Return the types of what a nested graph gives, as far as onnx finds them.

        Parameters
        ----------
        body : GraphProto
            A graph within a node; it may read values around it. What it states of the types of
            its outputs is not looked at.
        given : sequence of TypeProto
            Of its inputs.
        """
        typed = [
            ValueInfoProto(name=value.name, type=found)
            for value, found in zip(body.input, given, strict=False)
        ]
        plain = [ValueInfoProto(name=value.name) for value in body.output]
        graph = onnx.helper.make_graph(body.node, "body", typed, plain)
        for tensor in body.initializer:
            self._take_in(graph, tensor.name, tensor)
        own = {value.name for value in graph.input} | {tensor.name for tensor in body.initializer}
        own.update(name for node in body.node for name in node.output)
        read = [name for node in body.node for name in node_reads(node)]
        read += [value.name for value in body.output]
        for name in dict.fromkeys(read):
            if name and name not in own:
                self._take_in(graph, name, self._graph.constants.get(name))
        inferred = onnx.shape_inference.infer_shapes(self._graph.model_of(graph))
        return [value.type for value in inferred.graph.output]

    def _take_in(
        self, graph: GraphProto, name: str, constant: TensorProto | np.ndarray | None
    ) -> None:
        """Let a graph have a constant, if it is small, or an input of its type."""
        if constant is not None and math.prod(_shape(constant)) <= _SMALL:
            graph.initializer.append(_as_tensor(constant, name))
        elif constant is not None:
            kind = onnx.helper.make_tensor_type_proto(element_type(constant), _shape(constant))
            graph.input.add(name=name, type=kind)
        elif (found := self.types.get(name)) is not None:
            graph.input.add(name=name, type=found)

    def _is_small(self, name: str) -> bool:
        return name in self._graph.constants and self._graph.size(name) <= _SMALL

    def _tensor(self, name: str) -> TensorProto:
        return _as_tensor(self._graph.constants[name], name)


def _as_tensor(value: TensorProto | np.ndarray, name: str) -> TensorProto:
    if isinstance(value, TensorProto):
        return value
    return numpy_helper.from_array(np.ascontiguousarray(value).reshape(value.shape), name)


def _shape(value: TensorProto | np.ndarray) -> tuple[int, ...]:
    return tuple(value.shape if isinstance(value, np.ndarray) else value.dims)


def _has_shape(found: TypeProto) -> bool:
    return not found.HasField("tensor_type") or found.tensor_type.HasField("shape")


def _static_dims(found: TypeProto) -> tuple[int, ...] | None:
    tensor = found.tensor_type
    if not tensor.HasField("shape"):
        return None
    dims = tensor.shape.dim
    return tuple(d.dim_value for d in dims) if all(d.HasField("dim_value") for d in dims) else None
