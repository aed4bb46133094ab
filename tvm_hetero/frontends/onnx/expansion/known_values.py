"""What is known of each value while the walk goes over a graph: its type, and maybe its data.

Types are found node by node (by onnx's `infer_node_outputs`), so that those of a node's
operands are there when the node is met, also where other nodes are put into its place.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, TypeProto, numpy_helper

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

    def _is_small(self, name: str) -> bool:
        return name in self._graph.constants and self._graph.size(name) <= _SMALL

    def _tensor(self, name: str) -> TensorProto:
        value = self._graph.constants[name]
        if isinstance(value, TensorProto):
            return value
        return numpy_helper.from_array(np.ascontiguousarray(value).reshape(value.shape), name)


def _has_shape(found: TypeProto) -> bool:
    return not found.HasField("tensor_type") or found.tensor_type.HasField("shape")


def _static_dims(found: TypeProto) -> tuple[int, ...] | None:
    tensor = found.tensor_type
    if not tensor.HasField("shape"):
        return None
    dims = tensor.shape.dim
    return tuple(d.dim_value for d in dims) if all(d.HasField("dim_value") for d in dims) else None
