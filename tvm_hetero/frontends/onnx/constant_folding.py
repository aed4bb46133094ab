"""Fold what depends on constants alone into constants, before TVM sees it.

TVM's FoldConstant compiles and runs a kernel for each such operation; NumPy just
computes it.  onnx's own reference evaluator computes
the values, so the meaning of every opset is onnx's and not ours.

A tiny file can ask for a huge constant (``ConstantOfShape``, ``Expand``,
``Tile``), so sizes are bounded before anything is computed, and the operators are
those whose output size is known from their operands.
"""

from __future__ import annotations

import math

import numpy as np
import onnx
from onnx import NodeProto, TensorProto
from onnx.reference import ReferenceEvaluator

from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.onnx.limits import DEFAULT_LIMITS, OnnxLimits
from tvm_hetero.frontends.onnx.mutable_graph import OnnxGraph, attribute, element_type
from tvm_hetero.frontends.onnx.tensors import (
    byte_size,
    check_total,
    describe,
    element_count,
)
from tvm_hetero.util.untrusted_names import printable

# Output no larger than all operands together.
_SHRINKING = frozenset(
    {
        "Unsqueeze", "Squeeze", "Reshape", "Flatten", "Transpose", "Concat", "Slice", "Split",
        "Cast", "Neg", "Abs", "Sqrt", "Reciprocal", "Floor", "Ceil", "Not", "Shape", "Size",
        "ReduceProd", "ReduceSum", "ReduceMax", "ReduceMin", "Identity",
    }
)  # fmt: skip
# Output of the operands' broadcast shape.
_BROADCASTING = frozenset(
    {"Add", "Sub", "Mul", "Div", "Pow", "Min", "Max", "Mod", "Equal", "Less", "Greater", "Where",
     "And", "Or"}
)  # fmt: skip

_LARGEST_FOLD = 2**26
"""Elements that a folded broadcast may have; larger ones are cheaper computed than stored."""

_MOST_WALKS = 200
"""Walks over the graph; each can settle one more Reshape of a chain of them."""


def fold_constants(graph: OnnxGraph, limits: OnnxLimits = DEFAULT_LIMITS) -> None:
    """Replace nodes that read only constants by the constants that they make.

    Also replaces ``Shape`` and ``Size`` of values whose shape is known.

    Parameters
    ----------
    graph : Graph
        Changed in place.
    limits : Limits
        Cap on the sum of all constants.

    Raises
    ------
    ModelError
        The constants grow past the limit, or a node on constants is invalid.
    """
    # A folded Shape may settle the shape that the next Reshape takes, and so on.
    for _ in range(_MOST_WALKS):
        if not (_fold_once(graph, limits) and _reads_shapes(graph)):
            break
    graph.sweep()
    check_total((_bytes(graph, name) for name in graph.constants), limits)


def _fold_once(graph: OnnxGraph, limits: OnnxLimits) -> bool:
    """Fold what can be folded in one walk; return whether anything was."""
    known = graph.known_values() if _reads_shapes(graph) else {}
    shapes = {name: value.dims for name, value in known.items() if value.dims is not None}
    kept: list[NodeProto] = []
    for index, node in enumerate(graph.nodes):
        values = _evaluate(graph, node, index, shapes, limits)
        if values is None:
            kept.append(node)
        else:
            graph.constants.update(values)
    changed = len(kept) < len(graph.nodes)
    graph.nodes = kept
    return changed


def _reads_shapes(graph: OnnxGraph) -> bool:
    return any(node.op_type in ("Shape", "Size") for node in graph.nodes)


def _bytes(graph: OnnxGraph, name: str) -> int:
    kind = element_type(graph.constants[name])
    return byte_size(kind, graph.size(name), f"constant '{printable(name)}'")


def _evaluate(
    graph: OnnxGraph,
    node: NodeProto,
    index: int,
    shapes: dict[str, tuple[int, ...]],
    limits: OnnxLimits,
) -> dict[str, TensorProto | np.ndarray] | None:
    """Return the outputs of `node` by name, or None where it cannot or should not be folded."""
    # An output of the graph needs a node that makes it.
    if graph.output_names.intersection(node.output):
        return None
    if node.op_type == "Constant":
        return _constant(node)
    if node.op_type in ("Shape", "Size") and node.input[0] in shapes:
        return _run(node, graph, {node.input[0]: _stand_in(shapes[node.input[0]])}, index)
    operands = [name for name in node.input if name]
    if not operands or not all(name in graph.constants for name in operands):
        return None
    if node.op_type == "ConstantOfShape":
        return _constant_of_shape(graph, node, index, limits)
    if not _bounded(graph, node, operands):
        return None
    return _run(node, graph, {name: graph.array(name) for name in operands}, index)


def _constant(node: NodeProto) -> dict[str, TensorProto | np.ndarray] | None:
    """Return what a ``Constant`` node holds, in any of its numeric forms."""
    value = node.attribute[0] if len(node.attribute) == 1 else None
    if value is None:
        return None
    name = node.output[0]
    if value.name == "value" and value.HasField("t"):
        tensor = TensorProto()
        tensor.CopyFrom(value.t)
        tensor.name = name
        return {name: tensor}
    if value.name in ("value_float", "value_floats"):
        return {name: np.asarray(onnx.helper.get_attribute_value(value), np.float32)}
    if value.name in ("value_int", "value_ints"):
        return {name: np.asarray(onnx.helper.get_attribute_value(value), np.int64)}
    return None


def _constant_of_shape(
    graph: OnnxGraph, node: NodeProto, index: int, limits: OnnxLimits
) -> dict[str, TensorProto | np.ndarray]:
    """Return the constant as a view of one element: no memory is taken until it is stored."""
    what = f"the output of {describe(node, index)}"
    dims = [int(d) for d in graph.array(node.input[0]).ravel()]
    count = element_count(dims, what, limits)
    given = attribute(node, "value")
    value = (
        onnx.numpy_helper.to_array(given)
        if isinstance(given, TensorProto)
        else np.zeros(1, np.float32)
    )
    if value.size != 1:
        raise ModelError(f"{describe(node, index)} has a value of {value.size} elements, not 1.")
    check_total([count * value.dtype.itemsize], limits)
    return {node.output[0]: np.broadcast_to(value.reshape(()), dims)}


def _bounded(graph: OnnxGraph, node: NodeProto, operands: list[str]) -> bool:
    """Whether the output is certain to stay small enough to be worth storing."""
    dims = [graph.shape(name) for name in operands]
    if node.op_type in _SHRINKING:
        return True
    if node.op_type in _BROADCASTING:
        try:
            return math.prod(np.broadcast_shapes(*dims)) <= _LARGEST_FOLD
        except ValueError:
            return False
    if node.op_type == "Gather":
        return math.prod(dims[0]) * math.prod(dims[1]) <= _LARGEST_FOLD
    if node.op_type in ("Expand", "Tile"):
        factors = [int(f) for f in graph.array(operands[1]).ravel()]
        size = math.prod(dims[0]) * math.prod(max(f, 1) for f in factors)
        return len(factors) <= len(dims[0]) + 8 and size <= _LARGEST_FOLD
    return False


def _stand_in(shape: tuple[int, ...]) -> np.ndarray:
    """Return an array of this shape without its memory, for operators that ask the shape only."""
    return np.broadcast_to(np.zeros((), np.float32), shape)


def _run(
    node: NodeProto, graph: OnnxGraph, feeds: dict[str, np.ndarray], index: int
) -> dict[str, TensorProto | np.ndarray]:
    """Return the outputs of `node` on `feeds` by onnx's reference evaluator."""
    anything = onnx.helper.make_tensor_value_info
    body = onnx.helper.make_graph(
        [node],
        "one_node",
        [anything(name, TensorProto.FLOAT, None) for name in feeds],
        [anything(name, TensorProto.FLOAT, None) for name in node.output if name],
    )
    opset = [onnx.helper.make_opsetid("", graph.opset)]
    try:
        model = onnx.helper.make_model(body, opset_imports=opset)
        with np.errstate(all="ignore"):
            results = ReferenceEvaluator(model).run(None, feeds)
    except Exception as error:
        raise ModelError(
            f"{describe(node, index)} cannot be computed from its constants: "
            f"{printable(error, 200)} Export the model again."
        ) from None
    names = [name for name in node.output if name]
    return {name: np.asarray(r) for name, r in zip(names, results, strict=True)}
