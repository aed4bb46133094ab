"""Values of whose axis as much counts as was found while the model runs, and who may read them.

``NonZero``, ``Compress``, ``Unique`` and ``NonMaxSuppression`` make tensors of a size that their
data decide.  Here each has room for all that could be found, and a number beside it: how much
counts.  What computes row by row can go on with all of the room; whoever would look across the
counted axis, or ask for its size, would see what does not count, and is refused.

The rules are about the axis alone, one for each kind of operator: given where it is in the
operands, where it is in the result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, NoReturn

import numpy as np
from onnx import NodeProto

from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.onnx.model.axes import checked_axis
from tvm_hetero.frontends.onnx.model.mutable_graph import OnnxGraph, attribute
from tvm_hetero.frontends.onnx.model.tensors import describe
from tvm_hetero.util.untrusted_names import printable

if TYPE_CHECKING:
    from tvm import relax


class ValueType(NamedTuple):
    """Dimensions and element type of a value."""

    dims: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class CountedAxis:
    """Where a value is counted.

    Attributes
    ----------
    axis : the axis, from 0 on.
    number : which number it is: the value that was first counted by it.
    """

    axis: int
    number: str


@dataclass
class Counts:
    """What is counted in a graph.

    Attributes
    ----------
    axes : the counted values, by their names.
    numbers : the numbers in Relax, by what was first counted by them.
    """

    axes: dict[str, CountedAxis] = field(default_factory=dict)
    numbers: dict[str, relax.Expr] = field(default_factory=dict)


@dataclass(frozen=True)
class _CountedRead:
    """A node that reads counted values, and what its rule may know."""

    node: NodeProto
    graph: OnnxGraph
    counted: Mapping[str, CountedAxis]
    types: Mapping[str, ValueType]

    def dims(self, name: str) -> tuple[int, ...]:
        return self.types[name].dims

    def operand(self, position: int) -> str:
        return self.node.input[position] if position < len(self.node.input) else ""

    def at(self, position: int) -> CountedAxis | None:
        return self.counted.get(self.operand(position))

    def rank(self, position: int) -> int:
        return len(self.dims(self.operand(position)))

    def numbers(self, position: int, name: str = "") -> list[int] | None:
        """Integers that a constant operand or an attribute gives."""
        given = attribute(self.node, name) if name else None
        if given is not None:
            return [int(n) for n in np.ravel(given)]
        if self.operand(position) not in self.graph.constants:
            return None
        return [int(n) for n in self.graph.array(self.operand(position)).ravel()]

    def axis_of(self, default: int, rank: int) -> int:
        return checked_axis(self.refuse, int(attribute(self.node, "axis", default)), rank)

    def axes_of(self, axes: Iterable[int], rank: int) -> set[int]:
        return {checked_axis(self.refuse, axis, rank) for axis in axes}

    def refuse(self, why: str) -> NoReturn:
        raise ModelError(f"{describe(self.node)} {why}.")


Rule = Callable[[_CountedRead], CountedAxis | None]

_RULES: dict[str, Rule] = {}


def _rule(*operators: str) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        _RULES.update(dict.fromkeys(operators, rule))
        return rule

    return register


def read_counted(
    node: NodeProto,
    graph: OnnxGraph,
    counted: Mapping[str, CountedAxis],
    types: Mapping[str, ValueType],
) -> CountedAxis:
    """Return where what a node makes of counted values is counted.

    Parameters
    ----------
    node : NodeProto
        Reads at least one of them.
    graph : OnnxGraph
        Of which the node is.
    counted : mapping of str to CountedAxis
        The counted values there are.
    types : mapping of str to ValueType
        Of the node's operands, in whose dimensions there is all of the room.

    Raises
    ------
    ModelError
        It reads one in a way that more room than is counted would change.
    """
    rule = _RULES.get(node.op_type)
    unknown = any(name and name not in types for name in node.input)
    found = None if rule is None or unknown else rule(_CountedRead(node, graph, counted, types))
    if found is None:
        name = next(name for name in node.input if name in counted)
        raise ModelError(
            f"{describe(node)} reads '{printable(name)}', whose size the data decide, other than "
            "row by row. Such values may be outputs, and be computed with row by row: cut the "
            "model before this node, and do the rest yourself."
        )
    return found


@_rule(
    "Add", "Sub", "Mul", "Pow", "Min", "Max", "Equal", "Less", "Greater", "LessOrEqual",
    "GreaterOrEqual", "And", "Or", "Xor", "Where", "Abs", "Neg", "Exp", "Log", "Sqrt", "Floor",
    "Ceil", "Round", "Sign", "Sigmoid", "Tanh", "Relu", "LeakyRelu", "Erf", "Sin", "Cos", "Not",
    "Reciprocal", "Cast", "Identity", "Clip", "Sum", "IsNaN", "IsInf", "Softplus", "HardSigmoid",
    "Div", "Mod",
)  # fmt: skip
def _element_by_element(r: _CountedRead) -> CountedAxis | None:
    """Operands side by side from the last axis on: the others must have one element there."""
    given = [(name, r.counted.get(name)) for name in r.node.input if name]
    ends = {(a.axis - len(r.dims(name)), a.number) for name, a in given if a is not None}
    if len(ends) != 1:
        return None
    (end, number) = ends.pop()
    others = (r.dims(name) for name, a in given if a is None)
    if not all(len(dims) < -end or dims[end] == 1 for dims in others):
        return None
    divides = r.node.op_type in ("Div", "Mod") and r.at(1) is not None
    if divides and "int" in r.types[r.operand(1)].dtype:
        return None  # where nothing was found, the room is full of zeros
    rank = max(len(r.dims(name)) for name, _ in given)
    return CountedAxis(rank + end, number)


@_rule("Transpose")
def _transposed(r: _CountedRead) -> CountedAxis | None:
    at, rank = r.at(0), r.rank(0)
    order = [int(n) for n in attribute(r.node, "perm", list(reversed(range(rank))))]
    return None if at is None else CountedAxis(order.index(at.axis), at.number)


@_rule("Unsqueeze", "Squeeze")
def _with_or_without_axes(r: _CountedRead) -> CountedAxis | None:
    at, axes = r.at(0), r.numbers(1, "axes")
    if at is None or axes is None:
        return None
    if r.node.op_type == "Squeeze":
        gone = r.axes_of(axes, r.rank(0))
        less = sum(axis < at.axis for axis in gone)
        return None if at.axis in gone else CountedAxis(at.axis - less, at.number)
    rank = r.rank(0) + len(axes)
    new = r.axes_of(axes, rank)
    old = [axis for axis in range(rank) if axis not in new]
    return CountedAxis(old[at.axis], at.number)


@_rule("Gather")
def _gathered(r: _CountedRead) -> CountedAxis | None:
    data, indices = r.at(0), r.at(1)
    axis = r.axis_of(0, r.rank(0))
    if data is None and indices is not None:
        return CountedAxis(axis + indices.axis, indices.number)
    if data is None or indices is not None or data.axis == axis:
        return None
    moved = data.axis if data.axis < axis else data.axis + r.rank(1) - 1
    return CountedAxis(moved, data.number)


@_rule("GatherND")
def _gathered_by_coordinates(r: _CountedRead) -> CountedAxis | None:
    at = r.at(1)
    plain = r.at(0) is None and not attribute(r.node, "batch_dims", 0)
    return at if at is not None and plain and at.axis < r.rank(1) - 1 else None


@_rule("Concat")
def _concatenated(r: _CountedRead) -> CountedAxis | None:
    found = {r.counted.get(name) for name in r.node.input}
    at = found.pop()
    other = at is not None and at.axis != r.axis_of(0, r.rank(0))
    return at if other and not found else None


@_rule("Slice")
def _sliced(r: _CountedRead) -> CountedAxis | None:
    at, starts, axes = r.at(0), r.numbers(1), r.numbers(3)
    if at is None or starts is None:
        return None
    sliced = r.axes_of(range(len(starts)) if axes is None else axes, r.rank(0))
    return None if at.axis in sliced else at


@_rule("Split")
def _split(r: _CountedRead) -> CountedAxis | None:
    at = r.at(0)
    return None if at is None or at.axis == r.axis_of(0, r.rank(0)) else at


@_rule("Softmax", "LogSoftmax", "Hardmax")
def _along_an_axis(r: _CountedRead) -> CountedAxis | None:
    at = r.at(0)
    return None if at is None or at.axis == r.axis_of(-1, r.rank(0)) else at


@_rule("Reshape")
def _reshaped(r: _CountedRead) -> CountedAxis | None:
    """The counted axis stays one where as many elements stand before and behind it."""
    at, shape = r.at(0), r.numbers(1)
    if at is None or shape is None or attribute(r.node, "allowzero", 0):
        return None
    dims = r.dims(r.operand(0))
    around = math.prod(dims[: at.axis]), math.prod(dims[at.axis + 1 :])
    sizes = [
        dims[n] if size == 0 and n != at.axis else max(size, 0) for n, size in enumerate(shape)
    ]
    if sizes.count(0) != 1:
        return None
    axis = sizes.index(0)
    same = (math.prod(sizes[:axis]), math.prod(sizes[axis + 1 :])) == around
    return CountedAxis(axis, at.number) if same else None


@_rule("MatMul")
def _multiplied(r: _CountedRead) -> CountedAxis | None:
    left, right = r.at(0), r.at(1)
    ranks = r.rank(0), r.rank(1)
    if left is not None and right is None and ranks[1] == 2:
        return left if left.axis < ranks[0] - 1 else None
    return None


@_rule("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL2", "ReduceL1")
def _reduced(r: _CountedRead) -> CountedAxis | None:
    at, axes = r.at(0), r.numbers(1, "axes")
    if at is None or axes is None:
        return None
    gone = r.axes_of(axes, r.rank(0))
    if at.axis in gone or not gone:
        return None
    kept = bool(attribute(r.node, "keepdims", 1))
    return at if kept else CountedAxis(at.axis - sum(n < at.axis for n in gone), at.number)


@_rule("ArgMax", "ArgMin")
def _place_of_extreme(r: _CountedRead) -> CountedAxis | None:
    at, axis = r.at(0), r.axis_of(0, r.rank(0))
    if at is None or at.axis == axis:
        return None
    kept = bool(attribute(r.node, "keepdims", 1))
    return at if kept else CountedAxis(at.axis - int(axis < at.axis), at.number)
