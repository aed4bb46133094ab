"""How many steps a loop has at least, told before the first one is unrolled.

A file of 200 bytes can ask for 2^62 steps, and takes minutes to grow past the limit step by step.
What its condition reads is mostly a constant, the step's number i, or a counter:

    c_k = f(i_k, s_k),    i_k = k,    s_k = s_0 + k d

so it is computed here for many steps at once, as arrays over k; the loop goes on after step k where
c_k holds. A condition that reads anything else may end the loop at any time: then nothing is sure.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from onnx import GraphProto, NodeProto, TensorProto, helper, numpy_helper

from tvm_hetero.frontends.onnx.model.mutable_graph import attribute

Array: TypeAlias = np.ndarray[Any, Any]
Lookup: TypeAlias = Callable[[str], Array | None]
"""The one number that a value is, as a scalar; None of what is not known, or not one number."""

_FIRST = 64
_GROWTH = 8

_COMPUTED: dict[str, np.ufunc] = {
    "Not": np.logical_not, "And": np.logical_and, "Or": np.logical_or, "Xor": np.logical_xor,
    "Less": np.less, "LessOrEqual": np.less_equal, "Equal": np.equal, "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal, "Add": np.add, "Sub": np.subtract, "Mul": np.multiply,
    "Neg": np.negative, "Abs": np.abs,
}  # fmt: skip
_SHAPED = frozenset({"Identity", "Squeeze", "Unsqueeze", "Reshape", "Flatten"})
"""Of one number, they are that number."""


def count_nodes(node: NodeProto, known: Lookup, most: int) -> int:
    """Return how many nodes are met for a node at least, loops in loops counted.

    Parameters
    ----------
    node : NodeProto
        Any; what is no loop is one.
    known : callable
        What is known of names around it.
    most : int
        Beyond this it need not be exact.
    """
    body = attribute(node, "body") if node.op_type == "Loop" else None
    if body is None:
        return 1
    inside = _inside(body, known)
    steps = _sure_steps(_Loop(node, body, known, inside), most)
    # The rest of the loop is a node of each step, too.
    return 1 + steps * (1 + sum(count_nodes(each, inside, most) for each in body.node))


@dataclass(frozen=True)
class _Loop:
    """A loop, and what is known around it and inside of its body in every step."""

    node: NodeProto
    body: GraphProto
    outside: Lookup
    inside: Lookup

    def trips(self) -> float | None:
        """The most steps that it may have; infinity where there is no limit."""
        name = self.node.input[0] if self.node.input else ""
        found = self.outside(name) if name else None
        if not name:
            return math.inf
        # Others are refused where they are looked at.
        return None if found is None or found.dtype.kind not in "iu" else max(0, int(found))

    def begins(self) -> bool:
        """Whether it surely has a first step."""
        name = self.node.input[1] if len(self.node.input) > 1 else ""
        found = self.outside(name) if name else np.array(True)
        return found is not None and bool(found)


def _sure_steps(loop: _Loop, most: int) -> int:
    """Return how many steps a loop has in any case; 0 where a condition may end it."""
    trips = loop.trips()
    if not trips or not loop.begins() or len(loop.body.input) < 2 or not loop.body.output:
        return 0
    wanted = int(min(trips, most // (1 + len(loop.body.node)) + 1))
    count = min(_FIRST, wanted)
    while True:
        goes_on = _conditions(loop, count)
        if goes_on is None:
            return min(1, count)
        if not goes_on.ndim and goes_on and trips < math.inf:
            return int(trips)
        if not goes_on.all():
            return int(np.argmin(np.broadcast_to(goes_on, [count]))) + 1
        if count == wanted:
            return wanted
        count = min(_GROWTH * count, wanted)


def _conditions(loop: _Loop, count: int) -> Array | None:
    """Return whether it goes on after each of so many steps; one truth if that is of all steps."""
    body = loop.body
    condition = body.output[0].name
    needed = _needed(body, condition)
    values = _counters(loop, needed, count)
    values[body.input[0].name] = np.arange(count)
    values[body.input[1].name] = np.array(True)  # or there is no such step
    for node in body.node:
        if len(node.output) == 1 and node.output[0] in needed:
            operands = [values.get(name, loop.inside(name)) for name in node.input]
            found = _computed(node, operands)
            if found is not None:
                values[node.output[0]] = found
    found = values.get(condition, loop.inside(condition))
    return None if found is None else found.astype(bool)


def _needed(body: GraphProto, name: str) -> set[str]:
    """Return the names of all that a value in a body is made of."""
    needed = {name}
    for node in reversed(body.node):
        if needed.intersection(node.output):
            needed.update(node.input)
    return needed


def _counters(loop: _Loop, needed: set[str], count: int) -> dict[str, Array]:
    """Return the states that stay as they are, or to which each step adds the same."""
    makers = {node.output[0]: node for node in loop.body.node if len(node.output) == 1}
    states = zip(loop.node.input[2:], loop.body.input[2:], loop.body.output[1:], strict=False)
    found: dict[str, Array] = {}
    for given, state, after in states:
        start = loop.outside(given) if state.name in needed else None
        if start is None:
            continue
        name, maker = _origin(after.name, makers)
        if name == state.name:
            found[name] = start
        elif maker is not None and maker.op_type in ("Add", "Sub") and len(maker.input) == 2:
            step = _step_of(maker, state.name, loop.inside)
            if step is not None and step.dtype == start.dtype and start.dtype.kind in "iuf":
                numbers = np.full(count, step)
                numbers[:1] = start
                with np.errstate(all="ignore"):
                    found[state.name] = _COMPUTED[maker.op_type].accumulate(numbers)
    return found


def _origin(name: str, makers: dict[str, NodeProto]) -> tuple[str, NodeProto | None]:
    """Return what a value is behind all ``Identity``, and which node makes it."""
    for _ in range(len(makers) + 1):
        maker = makers.get(name)
        if maker is None or maker.op_type != "Identity":
            return name, maker
        name = maker.input[0]
    return name, None


def _step_of(maker: NodeProto, state: str, inside: Lookup) -> Array | None:
    """Return what is added to a state, or subtracted from it; None if it is anything else."""
    left, right = maker.input
    if left == state:
        return inside(right)
    return inside(left) if right == state and maker.op_type == "Add" else None


def _computed(node: NodeProto, operands: Sequence[Array | None]) -> Array | None:
    """Return what an operator makes of numbers, or of arrays of one for each step."""
    if node.domain not in ("", "ai.onnx") or not operands or operands[0] is None:
        return None
    if node.op_type in _SHAPED:
        return operands[0]
    if node.op_type == "Cast":
        return _cast(operands[0], int(attribute(node, "to", 0)))
    function = _COMPUTED.get(node.op_type)
    known = [each for each in operands if each is not None]
    if function is None or len(known) != len(operands) or len(known) != function.nin:
        return None
    if len({each.dtype for each in known}) > 1:
        return None
    with np.errstate(all="ignore"):
        return np.asarray(function(*known))


def _cast(value: Array, kind: int) -> Array | None:
    """Return a number as another type; None for text and types that NumPy has not."""
    try:
        dtype = helper.tensor_dtype_to_np_dtype(kind)
    except (KeyError, TypeError, ValueError):
        return None
    with np.errstate(all="ignore"):
        return value.astype(dtype) if dtype.kind in "biuf" else None


def _inside(body: GraphProto, known: Lookup) -> Lookup:
    """Return what is known in a body in every step; its own names hide those around it."""
    own: dict[str, Array | None] = {given.name: None for given in body.input}
    own.update((name, None) for node in body.node for name in node.output)
    own.update((each.name, _number(each)) for each in body.initializer)
    own.update((n.output[0], _constant(n)) for n in body.node if _is_constant(n))
    return lambda name: own[name] if name in own else known(name)


def _is_constant(node: NodeProto) -> bool:
    return node.op_type == "Constant" and len(node.output) == 1


def _constant(node: NodeProto) -> Array | None:
    """Return the number in a ``Constant``."""
    given = node.attribute[0] if len(node.attribute) == 1 else None
    if given is None:
        return None
    if given.name == "value" and given.HasField("t"):
        return _number(given.t)
    if given.name == "value_int":
        return np.array(given.i, np.int64)
    return np.array(given.f, np.float32) if given.name == "value_float" else None


def _number(tensor: TensorProto) -> Array | None:
    """Return the number that a tensor is; None for others, and for those in other files."""
    if math.prod(tensor.dims) != 1 or tensor.data_location == TensorProto.EXTERNAL:
        return None
    return scalar(numpy_helper.to_array(tensor))


def scalar(array: Array) -> Array | None:
    """Return an array of one number as a scalar, None for others."""
    return array.reshape(()) if array.size == 1 and array.dtype.kind in "biuf" else None
