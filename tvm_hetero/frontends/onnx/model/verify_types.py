"""Compare what TVM imported with what ONNX says of it, value by value: type and shape.

TVM's importer ignores some attributes (``output_shape`` of ``ConvTranspose``) and implements
some operators for other opsets than the model's (``TopK`` before opset 11 takes k = 1).  It
says nothing of it, and what it makes then computes something else.  In many such cases the
type or the shape is another one, too, and those are known beforehand: from onnx's own shape
inference, and from what the model declares its outputs to be.

    declared (outputs)  --verify_declared-->  inferred by onnx  --TypeComparison-->  imported by TVM

Only what both sides know is compared: a symbolic or missing dimension fits anything.  Values
that no one reads are left out, since TVM fills optional outputs with anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import onnx
from onnx import NodeProto, ValueInfoProto

from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.onnx.model.element_types import held_as
from tvm_hetero.frontends.onnx.model.mutable_graph import OnnxGraph
from tvm_hetero.frontends.onnx.model.native_calls import INFERENCE, call_native
from tvm_hetero.frontends.onnx.model.refusals import ANOTHER_FORM, form_of
from tvm_hetero.util.untrusted_names import printable

if TYPE_CHECKING:
    from tvm import relax

Dims = tuple[int | None, ...] | None


@dataclass(frozen=True)
class OnnxTensorType:
    """Element type and dimensions, each None where it is not known."""

    dtype: str | None
    dims: Dims

    def __str__(self) -> str:
        if self.dims is None:
            return f"{self.dtype or 'any type'} of unknown shape"
        shape = "x".join("?" if d is None else str(d) for d in self.dims)
        return f"{self.dtype or 'any type'} {shape or 'scalar'}"

    def fits(self, other: OnnxTensorType) -> bool:
        """Whether some tensor is of both types."""
        if None not in (self.dtype, other.dtype) and self.dtype != other.dtype:
            return False
        if self.dims is None or other.dims is None:
            return True
        return len(self.dims) == len(other.dims) and all(
            None in pair or pair[0] == pair[1] for pair in zip(self.dims, other.dims, strict=True)
        )


def verify_declared(graph: OnnxGraph) -> None:
    """Refuse a model that declares an output to be what onnx infers that it is not.

    Parameters
    ----------
    graph : Graph
        As loaded.

    Raises
    ------
    ModelError
        Names the output, its node and both types.
    """
    inferred = inferred_types(graph)
    for value in graph.outputs:
        declared, found = declared_type(value), inferred.get(value.name)
        if found is None or declared.fits(found):
            continue
        raise ModelError(
            f"The model declares its output '{printable(value.name)}' to be {declared}, but its "
            f"own nodes make it {found}{_maker(graph, value.name)}. One of the two is wrong: "
            "correct the declared output, or export the model again."
        )


class TypeComparison:
    """What is known of the values of a graph, to be compared with what an import makes of them."""

    def __init__(self, graph: OnnxGraph) -> None:
        self._graph = graph
        self._inferred = inferred_types(graph)
        self._declared = {value.name: declared_type(value) for value in graph.outputs}
        read = {name for node in graph.nodes for name in node.input}
        self._wanted = read | graph.output_names

    def refuse_wrong(self, node: NodeProto, values: Mapping[str, relax.Expr]) -> None:
        """Refuse a node of which a value that is read has another type or shape than in the model.

        Parameters
        ----------
        node : NodeProto
            Of the graph.
        values : mapping of str to relax.Expr
            What the importer made of each value, by its name in the model.

        Raises
        ------
        ModelError
            Names the node, its operator, the value, and both types.
        """
        for name in node.output:
            imported = type_of_relax(values.get(name)) if name in self._wanted else None
            if imported is None:
                continue
            # The inferred type first: of what onnx cannot infer, an output's declaration remains.
            for said_by, wanted in (
                ("onnx infers", self._inferred.get(name)),
                ("the model declares", self._declared.get(name)),
            ):
                if wanted is not None and not wanted.fits(imported):
                    said = f"{said_by} {wanted}, but our import makes it {imported}"
                    leave = name in self._declared and len(self._declared) > 1
                    raise ModelError(_refusal(self._graph, node, name, said, leave=leave))


def _refusal(graph: OnnxGraph, node: NodeProto, name: str, said: str, *, leave: bool) -> str:
    value = printable(name)
    remedy = f"If no one needs '{value}', leave it out of the model's outputs. " if leave else ""
    return (
        f"{graph.describe(node)} of opset {graph.opset} is not taken in this form "
        f"({form_of(node)}): of its '{value}' {said}. {remedy}{ANOTHER_FORM}"
    )


def _describe(node: NodeProto) -> str:
    # Not by its index: nodes in front of it may have been folded.
    name = f" '{printable(node.name)}'" if node.name else ""
    return f"the {printable(node.op_type)} node{name}"


def _maker(graph: OnnxGraph, name: str) -> str:
    found = next((node for node in graph.nodes if name in node.output), None)
    return f", by {_describe(found)}" if found is not None else ""


def inferred_types(graph: OnnxGraph) -> dict[str, OnnxTensorType]:
    """Return what onnx infers of inputs and of what nodes make, outputs' declarations aside."""
    model = graph.skeleton()
    for output in model.graph.output:
        output.ClearField("type")
    inferred = call_native(INFERENCE, model, onnx.shape_inference.infer_shapes).graph
    return {
        v.name: declared_type(v) for v in [*inferred.input, *inferred.value_info, *inferred.output]
    }


def declared_type(value: ValueInfoProto) -> OnnxTensorType:
    """Return the type that is stated of a value; nothing is known of what is no tensor."""
    tensor = value.type.tensor_type
    if not value.type.HasField("tensor_type"):
        return OnnxTensorType(None, None)
    dtype = _dtype(tensor.elem_type)
    if not tensor.HasField("shape"):
        return OnnxTensorType(dtype, None)
    # Some exporters write -1 for an open dimension.
    known = (d.dim_value if d.HasField("dim_value") else -1 for d in tensor.shape.dim)
    return OnnxTensorType(dtype, tuple(d if d >= 0 else None for d in known))


def _dtype(element_type: int) -> str | None:
    """Return the name that both onnx's NumPy types and TVM give an element type."""
    try:
        return held_as(element_type)
    except (KeyError, TypeError, ValueError):
        return None


def type_of_relax(value: object) -> OnnxTensorType | None:
    """Return the type of an imported value; None for what is no tensor (a shape, a number)."""
    from tvm import relax, tirx

    type_ = getattr(value, "ty", None)
    if not isinstance(type_, relax.TensorType):
        return None
    dtype = str(type_.dtype) if type_.dtype else None
    if isinstance(type_.shape, relax.ShapeExpr):
        dims = (int(d) if isinstance(d, tirx.IntImm) else None for d in type_.shape.values)
        return OnnxTensorType(dtype, tuple(dims))
    return OnnxTensorType(dtype, (None,) * type_.ndim if type_.ndim >= 0 else None)
