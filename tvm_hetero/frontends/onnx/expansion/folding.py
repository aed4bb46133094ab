"""Compute what depends on constants alone, before TVM sees it.

TVM's FoldConstant compiles and runs a kernel for each such operation; NumPy just
computes it.  onnx's own reference evaluator computes
the values, so the meaning of every opset is onnx's and not ours.

A tiny file can ask for a huge constant (``ConstantOfShape``, ``Expand``, ``Tile``, a chain of
``Concat``), so sizes are bounded before anything is computed: by the inferred shape of the result,
or by that of the operands where a result can be no larger.  Each result is paid for before it is
made (`made_bytes`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, TypeProto

from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.onnx.expansion.computed_constants import Constant, compute_constants
from tvm_hetero.frontends.onnx.expansion.known_values import KnownValues
from tvm_hetero.frontends.onnx.model.limits import OnnxLimits
from tvm_hetero.frontends.onnx.model.mutable_graph import OnnxGraph, attribute, element_type
from tvm_hetero.frontends.onnx.model.tensors import check_total, describe, element_count

# Output no larger than all operands together.
_SHRINKING = frozenset(
    {
        "Unsqueeze", "Squeeze", "Reshape", "Flatten", "Transpose", "Concat", "Slice", "Split",
        "Cast", "Neg", "Abs", "Sqrt", "Reciprocal", "Floor", "Ceil", "Not", "Shape", "Size",
        "ReduceProd", "ReduceSum", "ReduceMax", "ReduceMin", "Identity", "CastLike", "ReduceMean",
        "ArgMax", "ArgMin", "CumSum", "Exp", "Log", "Sign", "Round", "Sin", "Cos", "Tanh",
        "Sigmoid", "Erf", "Trilu", "Clip", "IsNaN", "IsInf", "Relu", "ReduceL2", "ScatterND",
        "ScatterElements", "Softmax", "BitwiseNot",
    }
)  # fmt: skip
# Output of a shape that onnx infers from the operands' shapes and data.
_INFERRED = frozenset(
    {
        "Add", "Sub", "Mul", "Div", "Pow", "Min", "Max", "Mod", "Equal", "Less", "Greater",
        "Where", "And", "Or", "Xor", "LessOrEqual", "GreaterOrEqual", "Gather", "GatherND",
        "GatherElements", "Expand", "Tile", "Pad", "OneHot", "BitwiseAnd", "BitwiseOr",
        "BitwiseXor", "BitShift", "EyeLike", "Sum", "Mean", "HannWindow", "HammingWindow",
        "BlackmanWindow", "TopK", "MelWeightMatrix", "MatMul", "Gemm", "LayerNormalization",
    }
)  # fmt: skip
# Output of a size that the data decide, never more than so many times the operand's rank.
_COUNTED = frozenset({"NonZero", "Compress", "Unique"})

# What makes int64 of whatever.
_INDICES = frozenset({"ArgMax", "ArgMin", "Shape", "Size", "TopK"})

# Products: their work is bounded, too.
_PRODUCTS = frozenset({"MatMul", "Gemm"})
_MOST_MULTIPLICATIONS = 2**32

LARGEST_FOLD = 2**26
"""Elements that a folded result may have if it is larger than its operands; beyond it, it is
cheaper computed than stored."""


def fold_node(
    graph: OnnxGraph,
    values: KnownValues,
    node: NodeProto,
    origin: str,
    limits: OnnxLimits,
) -> dict[str, Constant] | None:
    """Return what a node makes as constants, by name; None where it cannot or should not be.

    Parameters
    ----------
    graph, values
        What is known of its operands.
    node : NodeProto
        Of the default domain.
    origin : str
        The node in words.
    limits : OnnxLimits
        Cap on what one node may make.

    Raises
    ------
    ModelError
        The node is invalid on these constants, or makes more than the limits allow.
    """
    if node.op_type == "Constant":
        return _constant(node, graph, origin)
    if node.op_type in ("Shape", "Size"):
        known = values.known(node.input[0])
        if known is None or known.dims is None:
            return None
        return compute_constants(node, graph, {node.input[0]: _stand_in(known.dims)}, origin)
    operands = [name for name in node.input if name]
    if not operands or not all(name in graph.constants for name in operands):
        return None
    if node.op_type == "ConstantOfShape":
        return _constant_of_shape(graph, node, origin, limits)
    size = _result_bytes(graph, values, node, operands)
    if size is None:
        return None
    graph.made.charge(size, origin)
    return compute_constants(node, graph, {name: graph.array(name) for name in operands}, origin)


def empty_results(types: Mapping[str, TypeProto], node: NodeProto) -> dict[str, Constant] | None:
    """Return what a node makes if all of it is empty tensors, whatever its operands hold."""
    made = [name for name in node.output if name]
    found: dict[str, Constant] = {}
    for name in made:
        empty = empty_tensor(types[name]) if name in types else None
        if empty is None:
            return None
        found[name] = empty
    return found or None


def empty_tensor(type_: TypeProto) -> np.ndarray[Any, Any] | None:
    """Return the one value that a type allows if it is that of an empty tensor.

    Raises
    ------
    ModelError
        Its other dimensions are too large.
    """
    dims = type_.tensor_type.shape.dim
    if not all(d.HasField("dim_value") for d in dims) or all(d.dim_value for d in dims):
        return None
    if any(d.dim_value < 0 for d in dims):  # whoever checks shapes refuses it
        return None
    dtype = onnx.helper.tensor_dtype_to_np_dtype(type_.tensor_type.elem_type)
    shape = [d.dim_value for d in dims]
    try:
        return np.zeros(shape, dtype)
    except ValueError:  # NumPy counts bytes without the dimensions that are 0
        raise ModelError(
            f"A tensor of no elements is of shape {'x'.join(map(str, shape))}, of which the other "
            "dimensions are too large. The file is damaged or made to harm: export the model again."
        ) from None


def _constant(node: NodeProto, graph: OnnxGraph, origin: str) -> dict[str, Constant] | None:
    """Return what a ``Constant`` node holds, in any of its numeric forms."""
    value = node.attribute[0] if len(node.attribute) == 1 else None
    if value is None:
        return None
    name = node.output[0]
    if value.name == "value" and value.HasField("t"):
        graph.made.charge_tensor(value.t, origin)
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
    graph: OnnxGraph, node: NodeProto, origin: str, limits: OnnxLimits
) -> dict[str, Constant]:
    """Return the constant as a view of one element: no memory is taken until it is stored."""
    dims = [int(d) for d in graph.array(node.input[0]).ravel()]
    count = element_count(dims, f"the output of {origin}", limits)
    given = attribute(node, "value")
    value = (
        onnx.numpy_helper.to_array(given)
        if isinstance(given, TensorProto)
        else np.zeros(1, np.float32)
    )
    if value.size != 1:
        raise ModelError(f"{origin} has a value of {value.size} elements, not 1.")
    check_total([count * value.dtype.itemsize], limits)
    return {node.output[0]: np.broadcast_to(value.reshape(()), dims)}


def _result_bytes(
    graph: OnnxGraph, values: KnownValues, node: NodeProto, operands: list[str]
) -> int | None:
    """Return how many bytes the output has at most; None where it is not worth storing."""
    # An operand that is read twice counts twice: that is how Concat doubles it.
    elements = sum(graph.size(name) for name in operands)
    if node.op_type in _SHRINKING:
        return elements * _widest(graph, node, operands)
    if node.op_type in _COUNTED:
        rank = max(len(graph.shape(name)) for name in operands)
        return 8 * elements * (rank + 1) if elements * 8 <= LARGEST_FOLD else None
    if node.op_type == "Range":
        given = [graph.array(name).astype(np.float64) for name in operands]
        if any(array.size != 1 for array in given):
            return None
        start, limit, delta = (float(array.item()) for array in given)
        count = _steps(start, limit, delta)
        if not count < 2**63:  # onnx takes it for a small one: its number goes around
            raise ModelError(
                f"{describe(node)} goes from {start:g} to {limit:g} by {delta:g}: more steps than "
                "can be counted. The file is damaged or made to harm: export the model again."
            )
        return 8 * math.ceil(count) if count <= LARGEST_FOLD else None
    if node.op_type not in _INFERRED:
        return None
    try:
        types = values.infer(node)
    except Exception:
        return None
    counts = [_count(types.get(name)) for name in node.output if name]
    if node.op_type in _PRODUCTS and not _is_quick(counts[0], graph.shape(operands[0])):
        return None
    if any(count is None or count > max(LARGEST_FOLD, elements) for count in counts):
        return None
    return sum(count or 0 for count in counts) * _widest(graph, node, operands)


def _steps(start: float, limit: float, delta: float) -> float:
    """Return about how many numbers a range has; none where it leads away from its limit."""
    if delta == 0:
        return 0.0 if start == limit else math.inf
    return max((limit - start) / delta, 0.0)


def _widest(graph: OnnxGraph, node: NodeProto, operands: list[str]) -> int:
    """Return the bytes of an element of the widest type that a node reads or makes."""
    kinds = [element_type(graph.constants[name]) for name in operands]
    if node.op_type in _INDICES:
        kinds.append(TensorProto.INT64)
    kinds += [int(attribute(node, key, TensorProto.FLOAT)) for key in ("to", "dtype")]
    return max(_item_bytes(kind) for kind in kinds)


def _item_bytes(kind: int) -> int:
    """Return the bytes of an element; the most that there are where the file says no type."""
    try:
        return int(onnx.helper.tensor_dtype_to_np_dtype(kind).itemsize)
    except (KeyError, TypeError, ValueError):
        return 16


def _is_quick(made: int | None, left: tuple[int, ...]) -> bool:
    """Whether a product is computed in a moment; each axis of an operand is at least its inner."""
    return made is not None and made * max(left, default=1) <= _MOST_MULTIPLICATIONS


def _count(found: TypeProto | None) -> int | None:
    if found is None or not found.tensor_type.HasField("shape"):
        return None
    dims = found.tensor_type.shape.dim
    if not all(d.HasField("dim_value") for d in dims):
        return None
    return math.prod(d.dim_value for d in dims)


def _stand_in(shape: tuple[int, ...]) -> np.ndarray:
    """Return an array of this shape without its memory, for operators that ask the shape only."""
    return np.broadcast_to(np.zeros((), np.float32), shape)
