"""Random ONNX models of loops in loops, whose ends do not depend on the model's input.

A loop carries up to two *states* (numbers that stay, count up or down, grow, or change places), how
many steps it had, and a vector that the model's input ``x`` is added to; it may hand over what each
step gave. Its most steps and its first condition are given or not; its condition reads numbers of
its own and of the loops around it, and how many steps the loop in it had (`loop_conditions`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from onnx import ModelProto, TensorProto, ValueInfoProto, helper

from tests.frontends.onnx.models import make, value
from tests.fuzz.loop_blocks import Block, Number, Writer, as_type, onnx_type
from tests.fuzz.loop_conditions import add_condition

BOOL, FLOAT, INT64 = TensorProto.BOOL, TensorProto.FLOAT, TensorProto.INT64
WIDTH = 2
"""Elements of the model's input."""

_TYPES = ("int64",) * 4 + ("int32",) * 2 + ("float32", "float64", "float16")
# Where counters of some type end, or can no longer be told from the number behind, and others.
_STARTS = (0, 1, 5, -3, 100, 127, -128, 2**31 - 2, -(2**31) + 1, 2**63 - 3, 0.1, -0.5, 1e8,
           2**24 - 1, 65504, 2048)  # fmt: skip
_STEPS = (1, 1, 2, -1, -2, 3, 0, 100, 0.1, -0.25, 2**30, 2**62, 1e30)
_TRIPS = (0, 1, 2, 3, 5, 9, 20, 40, -1, -5, 2**40, 2**62)


@dataclass(frozen=True)
class _State(Number):
    """A number that a loop carries, and what it is at first."""

    start: str = ""


@dataclass
class _Ends:
    """What a loop's body gives: how often it was run, the vector, and what is stacked."""

    count: str
    data: str
    pieces: list[ValueInfoProto] = field(default_factory=list)


def loop_model(seed: int, depth: int | None = None) -> ModelProto:
    """A model of one loop with loops in it; its input is ``x``."""
    writer = Writer(seed)
    block = Block(writer)
    outputs = add_loop(block, [], writer.rng.randint(0, 2) if depth is None else depth - 1)
    model = make(block.nodes, {"x": [WIDTH]}, outputs, writer.constants, writer.opset)
    model.graph.initializer.extend(block.initializers)
    for output in model.graph.output:
        output.ClearField("type")
    return model


def add_loop(block: Block, around: Sequence[Number], depth: int) -> list[str]:
    """Add a loop, with so many levels of others in it.

    Parameters
    ----------
    block : Block
        Where.
    around : sequence of Number
        What it may read of the loops around it.
    depth : int
        Levels of loops in it, at most.

    Returns
    -------
    list of str
        Its outputs, of which the first is how many steps it had, and the second the vector.
    """
    writer = block.writer
    body = Block(writer)
    step, first = Number(_step_name(writer)), _draw_first(block)
    given = Number(writer.name("c"), "bool", first.shape)
    count, data = writer.name("count"), writer.name("data")
    states = [_draw_state(block, around) for _ in range(writer.rng.randint(0, 2))]
    after = [Number(_advanced(body, s, states), s.dtype, s.shape) for s in states]
    numbers = [step, *states, *after]
    visible = [n for n in around if n.name != step.name]
    inner = None
    if depth and writer.chance(0.8):
        inner = add_loop(body, [*visible, step, *states], depth - 1)
        numbers.append(Number(inner[0]))
    ends = _end_step(body, count, data, inner)
    if writer.chance(0.4):
        ends.pieces.append(_draw_piece(body, step.name, ends))
    condition = add_condition(body, [*numbers, *numbers, *visible], given.name)
    shape = "vector_shape" if given.shape else "scalar_shape"
    condition = body.add("Reshape", [condition, shape])
    takes = [
        value(step.name, [], INT64), value(given.name, given.shape, BOOL), value(count, [], INT64),
        value(data, [WIDTH]), *(value(s.name, s.shape, onnx_type(s.dtype)) for s in states),
    ]  # fmt: skip
    gives = [
        value(condition, given.shape, BOOL), value(ends.count, [], INT64),
        value(ends.data, [WIDTH]),
        *(value(a.name, None, onnx_type(a.dtype)) for a in after), *ends.pieces,
    ]  # fmt: skip
    graph = helper.make_graph(body.nodes, "body", takes, gives, body.initializers)
    made = [writer.name("end") for _ in gives[1:]]
    starts = ["zero", "x", *(state.start for state in states)]
    inputs = [_draw_trips(block, around), first.name, *starts]
    block.nodes.append(helper.make_node("Loop", inputs, made, body=graph))
    return made


def _step_name(writer: Writer) -> str:
    """A new name, or now and then that of a constant, which is hidden in the body then."""
    taken = [name for name, array in writer.constants.items() if array.shape == ()
             and array.dtype == np.int64]  # fmt: skip
    return writer.rng.choice(taken) if writer.chance(0.1) else writer.name("i")


def _draw_state(block: Block, around: Sequence[Number]) -> _State:
    """Draw a number that is carried; it begins as a constant, or as a number around the loop."""
    rng, name = block.rng, block.writer.name("s")
    if around and rng.random() < 0.15:
        source = rng.choice(around)
        return _State(name, source.dtype, source.shape, source.name)
    dtype = rng.choice(_TYPES)
    begin = rng.choice(_STARTS)
    if dtype == "float32" and rng.random() < 0.15:
        begin = rng.choice((np.nan, np.inf, -np.inf))
    shape: tuple[int, ...] = rng.choice(((), (), (1,), (1, 1)))
    start = block.constant(as_type(begin, dtype, shape))
    if rng.random() < 0.1:
        start = block.add("Identity", [start])
    return _State(name, dtype, shape, start)


def _advanced(body: Block, state: _State, states: Sequence[_State]) -> str:
    """Write what a state is after a step: the same, a sum, a product, another state."""
    rng, draw = body.rng, body.rng.random()
    if draw < 0.25:
        return body.add("Identity", [state.name])
    if draw < 0.85:
        shape = rng.choice(((), state.shape))
        sides = [state.name, body.constant(as_type(rng.choice(_STEPS), state.dtype, shape))]
        if rng.random() < 0.4:
            sides.reverse()
        made = body.add(rng.choice(("Add", "Add", "Sub", "Mul")), sides)
        return body.add("Identity", [made]) if rng.random() < 0.2 else made
    like = [
        s for s in states if s is not state and (s.dtype, s.shape) == (state.dtype, state.shape)
    ]
    if draw < 0.95 and like:
        return body.add("Identity", [like[0].name])
    return body.add("Add", [state.name, state.name])


def _end_step(body: Block, count: str, data: str, inner: Sequence[str] | None) -> _Ends:
    """Count the step, and add to the vector."""
    counted = body.add("Add", [count, "one"])
    if inner is None:
        return _Ends(counted, body.add("Add", [data, "x"]))
    # Halved, so that it stays small.
    return _Ends(counted, body.add("Mul", [body.add("Add", [data, inner[1]]), "half"]))


def _draw_piece(body: Block, step: str, ends: _Ends) -> ValueInfoProto:
    """Draw what of each step is stacked, and whether its shape is written down."""
    source = body.rng.choice((step, ends.count, ends.data))
    vector = source == ends.data
    shape = None if body.rng.random() < 0.2 else [WIDTH] if vector else []
    return value(body.add("Identity", [source]), shape, FLOAT if vector else INT64)


def _draw_trips(block: Block, around: Sequence[Number]) -> str:
    """Draw how many steps there are at most: a constant, a number around the loop, or no limit."""
    rng = block.rng
    counts = [number.name for number in around if number.dtype == "int64"]
    if rng.random() < 0.15:
        return ""
    if counts and rng.random() < 0.15:
        return str(rng.choice(counts))
    return block.constant(as_type(rng.choice(_TRIPS), "int64", rng.choice(((), (1,)))))


def _draw_first(block: Block) -> Number:
    """Draw what says whether there is a first step: nothing, or a truth of some shape."""
    rng, draw = block.rng, block.rng.random()
    if draw < 0.3:
        return Number("", "bool")
    if draw < 0.85:
        return Number("go" if draw < 0.8 else "stop", "bool")
    shape: tuple[int, ...] = rng.choice(((), (1,)))
    return Number(block.constant(np.full(shape, rng.random() < 0.9)), "bool", shape)
