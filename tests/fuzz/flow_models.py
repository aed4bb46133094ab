"""Random ONNX models of branches, loops and scans in each other, whose shapes are known.

The graph in a node reads tensors around it. An ``If`` goes by a constant, by a shape or by data; a
``Loop`` has a few steps or none, by a constant, a length or a condition, and carries what keeps its
shape, what grows, and a sequence; a ``Scan`` goes along any axis, forwards or backwards. What they
make goes on through other nodes (`flow_values`), tensors of no elements among them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from onnx import GraphProto, ModelProto, TensorProto, ValueInfoProto, helper

from tests.frontends.onnx.models import make, value
from tests.fuzz.flow_values import MAKERS, Dims, Tensor, is_small
from tests.fuzz.loop_blocks import Block, Writer

BOOL, FLOAT, INT64 = TensorProto.BOOL, TensorProto.FLOAT, TensorProto.INT64
INPUTS: dict[str, Dims] = {"x": (2,), "m": (3, 2), "none": (0, 2)}
_STEPS = (0, 0, 1, 2, 3)


def flow_model(seed: int) -> ModelProto:
    """A model of branches and loops; its inputs are `INPUTS`."""
    writer = Writer(seed)
    block = Block(writer, is_model=True)
    around = [Tensor(name, dims) for name, dims in INPUTS.items()]
    made = grow(block, around, writer.rng.randint(1, 3), writer.rng.randint(3, 7))
    outputs = list(dict.fromkeys(t.name for t in made)) or [block.add("Neg", ["x"])]
    model = make(block.nodes, INPUTS, outputs, writer.constants, writer.opset)
    model.graph.initializer.extend(block.initializers)
    return model


def grow(block: Block, around: Sequence[Tensor], depth: int, count: int) -> list[Tensor]:
    """Add so many values; returns those that are made."""
    scope, made = list(around), []
    for _ in range(count):
        if depth and block.rng.random() < 0.5:
            maker = block.rng.choice((_branch, _loop, _loop, _loop, _scan, _listing))
            found = maker(block, scope, depth - 1)
        else:
            one = block.rng.choice(MAKERS)(block, scope)
            found = [] if one is None else [one]
        made += found
        scope += [t for t in found if is_small(t)]
    return made


# ----------------------------------------------------------------------------------- branches


def _branch(block: Block, scope: Sequence[Tensor], depth: int) -> list[Tensor]:
    """An ``If``: by what is known it may give another shape than by what is not."""
    rng, data = block.rng, block.rng.random() < 0.3
    chosen = rng.random() < 0.5
    condition = _on_data(block, scope) if data else _known(block, scope, chosen)
    goal = rng.choice(scope)
    ends = []
    for name in ("then", "else"):
        branch = Block(block.writer)
        made = grow(branch, scope, depth, rng.randint(0, 3))
        alike = [t for t in [*scope, *made] if t.dims == goal.dims]
        end = made[-1] if made and not data else rng.choice(alike)
        out = Tensor(branch.add(rng.choice(("Identity", "Neg", "Relu")), [end.name]), end.dims)
        ends.append((_graph(branch, name, [], [_stated(branch, out)]), out))
    (then, yes), (other, no) = ends
    made_name = block.writer.name("if")
    block.nodes.append(
        helper.make_node("If", [condition], [made_name], then_branch=then, else_branch=other)
    )
    return [Tensor(made_name, yes.dims if data or chosen else no.dims)]


def _on_data(block: Block, scope: Sequence[Tensor]) -> str:
    """A truth that is known when the model runs."""
    total = block.add("ReduceSum", [block.rng.choice(scope).name], keepdims=0)
    return block.add("Less", [total, block.constant(np.array(0.25, np.float32))])


def _known(block: Block, scope: Sequence[Tensor], truth: bool) -> str:
    """A truth that is a constant, or follows from a shape."""
    lengths = [t for t in scope if t.dims]
    if not lengths or block.rng.random() < 0.4:
        return block.constant(np.array(truth))
    length, number = _length(block, block.rng.choice(lengths))
    return block.add("Equal", [length, block.constant(np.array(number if truth else number + 1))])


def _length(block: Block, tensor: Tensor) -> tuple[str, int]:
    """A dimension of a tensor as a value, and what it is."""
    axis = block.rng.randrange(len(tensor.dims))
    shape = block.add("Shape", [tensor.name])
    place = block.constant(np.array(axis))
    return block.add("Gather", [shape, place], axis=0), tensor.dims[axis]


# -------------------------------------------------------------------------------------- loops


@dataclass
class _Carried:
    """What a loop carries: names in and out of the body, its first value, its shape at the end."""

    takes: list[ValueInfoProto] = field(default_factory=list)
    starts: list[str] = field(default_factory=list)
    gives: list[ValueInfoProto] = field(default_factory=list)
    after: list[Tensor] = field(default_factory=list)
    growing: set[str] = field(default_factory=set)


def _loop(block: Block, scope: Sequence[Tensor], depth: int) -> list[Tensor]:
    """A ``Loop`` of few steps, or of none."""
    rng, writer = block.rng, block.writer
    body = Block(writer)
    step, given = writer.name("i"), writer.name("c")
    steps, trips, first, condition = _draw_end(block, body, scope, step)
    carried = _Carried()
    held = [_carry(body, scope, carried, steps) for _ in range(rng.randint(0, 2))]
    # What grows has another shape in each step: it is not stacked.
    inner = [*scope, *(t for t in held if t.name not in carried.growing)]
    made = grow(body, [*inner, *_row(body, scope, step, steps)], depth, rng.randint(1, 3))
    pieces = [rng.choice(made) for _ in range(rng.randint(0, 2))] if made else []
    stacked = [Tensor(body.add("Identity", [p.name]), p.dims) for p in pieces]
    # Where there is no step, ONNX Runtime has another shape of what is not stated, maybe: of that
    # nothing more is made.
    stated = [bool(steps) or not block.is_model or rng.random() < 0.5 for _ in stacked]
    ends = [writer.name("end") for _ in (*carried.gives, *stacked)]
    if not ends:
        return []
    takes = [value(step, [], INT64), value(given, [], BOOL), *carried.takes]
    gives = [value(body.add("Identity", [condition or given]), [], BOOL), *carried.gives]
    for piece, surely in zip(stacked, stated, strict=True):
        gives.append(
            _stated(body, piece) if steps else value(piece.name, piece.dims if surely else None)
        )
    graph = _graph(body, "body", takes, gives)
    block.nodes.append(helper.make_node("Loop", [trips, first, *carried.starts], ends, body=graph))
    found = [Tensor(end, t.dims) for end, t in zip(ends, carried.after, strict=False)]
    tails = zip(ends[len(found) :], stacked, stated, strict=True)
    return [*found, *(Tensor(end, (steps, *p.dims), not surely) for end, p, surely in tails)]


def _listing(block: Block, scope: Sequence[Tensor], depth: int) -> list[Tensor]:
    """A ``Loop`` that puts a tensor into a sequence in each step, and what is in it at the end."""
    rng, writer = block.rng, block.writer
    body = Block(writer)
    step, given, name = writer.name("i"), writer.name("c"), writer.name("q")
    steps, trips, first, condition = _draw_end(block, body, scope, step)
    made = [t for t in grow(body, scope, depth, rng.randint(1, 2)) if t.dims]
    piece = rng.choice(made or [t for t in scope if t.dims])
    begun = [t for t in scope if t.dims and t.dims[1:] == piece.dims[1:] and rng.random() < 0.5][:2]
    start = (
        block.add("SequenceConstruct", [t.name for t in begun])
        if begun
        else block.add("SequenceEmpty", [])
    )
    place = rng.choice(([], [body.constant(np.array(0))]))
    after = body.add("SequenceInsert", [name, piece.name, *place])
    sequence = helper.make_tensor_sequence_value_info
    graph = _graph(
        body, "body",
        [value(step, [], INT64), value(given, [], BOOL), sequence(name, FLOAT, None)],
        [value(body.add("Identity", [condition or given]), [], BOOL), sequence(after, FLOAT, None)],
    )  # fmt: skip
    end = writer.name("end")
    block.nodes.append(helper.make_node("Loop", [trips, first, start], [end], body=graph))
    length = block.add("SequenceLength", [end])
    found = [Tensor(block.add("Cast", [length], to=FLOAT), ())]
    if begun or steps:
        rows = sum(t.dims[0] for t in begun) + steps * piece.dims[0]
        joined = block.add("ConcatFromSequence", [end], axis=0)
        found.append(Tensor(joined, (rows, *piece.dims[1:])))
    return found


def _row(body: Block, scope: Sequence[Tensor], step: str, steps: int) -> list[Tensor]:
    """What is at the place of the step in a tensor around the loop, if one is long enough."""
    fits = [t for t in scope if t.dims and t.dims[0] >= max(steps, 1)]
    if not fits or body.rng.random() < 0.4:
        return []
    rows = body.rng.choice(fits)
    return [Tensor(body.add("Gather", [rows.name, step], axis=0), rows.dims[1:])]


def _draw_end(
    block: Block, body: Block, scope: Sequence[Tensor], step: str
) -> tuple[int, str, str, str]:
    """How many steps; the most of them, the first condition, and that of each step, as values."""
    rng, steps = block.rng, block.rng.choice(_STEPS)
    form = rng.choice(("trips", "length", "condition", "both", "stop"))
    lengths = [t for t in scope if t.dims and max(t.dims) <= 3]
    if form == "length" and lengths:
        trips, steps = _length(block, rng.choice(lengths))
        return steps, trips, rng.choice(("", "go")), ""
    if form in ("condition", "both") and steps:
        last = body.constant(np.array(steps - 1))
        condition = body.add("Less", [step, last])
        most = block.constant(np.array(steps + rng.randint(0, 2))) if form == "both" else ""
        return steps, most, "go", condition
    if form == "stop":
        return 0, rng.choice(("", block.constant(np.array(3)))), _known(block, scope, False), ""
    return steps, block.constant(np.array(steps)), rng.choice(("", "go")), ""


def _carry(body: Block, scope: Sequence[Tensor], carried: _Carried, steps: int) -> Tensor:
    """Carry a tensor that stays, is added to, or grows by another one in each step."""
    rng, name, start = body.rng, body.writer.name("s"), body.rng.choice(scope)
    alike = [t for t in scope if t.dims == start.dims]
    more = [t for t in scope if t.dims and t.dims[1:] == start.dims[1:]] if start.dims else []
    form = rng.choice(("stays", "sum", "sum", "grows"))
    dims = start.dims
    if form == "grows" and more:
        other = rng.choice(more)
        after = body.add("Concat", [name, other.name], axis=0)
        dims = (start.dims[0] + steps * other.dims[0], *start.dims[1:])
        carried.growing.add(name)
    elif form == "stays":
        after = name if rng.random() < 0.3 else body.add("Identity", [name])
    else:
        after = body.add("Add", [name, rng.choice(alike).name])
    shape = None if name in carried.growing or rng.random() < 0.2 else dims
    carried.takes.append(value(name, shape))
    carried.starts.append(start.name)
    carried.gives.append(value(after, None))
    carried.after.append(Tensor(after, dims))
    return Tensor(name, start.dims)


# -------------------------------------------------------------------------------------- scans


def _scan(block: Block, scope: Sequence[Tensor], depth: int) -> list[Tensor]:
    """A ``Scan`` along an axis of one tensor, or of two; ONNX Runtime takes none of nothing."""
    rng, writer = block.rng, block.writer
    full = [t for t in scope if 0 not in t.dims]
    fits = [t for t in full if t.dims and max(t.dims) <= 3]
    if not fits:
        return []
    first = rng.choice(fits)
    steps = rng.choice(first.dims)
    scanned = [(t, rng.choice([i for i, n in enumerate(t.dims) if n == steps]))
               for t in [first, rng.choice(fits)] if steps in t.dims]  # fmt: skip
    body, start = Block(writer), rng.choice(full)
    state = Tensor(writer.name("s"), start.dims)
    slices = [Tensor(writer.name("slice"), t.dims[:a] + t.dims[a + 1 :]) for t, a in scanned]
    made = grow(body, [*scope, state, *slices], depth, rng.randint(1, 3))
    alike = [t for t in [*scope, state, *slices, *made] if t.dims == start.dims]
    after = body.add("Add", [state.name, rng.choice(alike).name])
    piece = rng.choice([t for t in [state, *slices, *made] if 0 not in t.dims])
    stacked = Tensor(body.add("Identity", [piece.name]), piece.dims)
    graph = _graph(
        body, "body", [value(t.name, t.dims) for t in (state, *slices)],
        [value(after, start.dims), _stated(body, stacked)],
    )  # fmt: skip
    axis = rng.randint(0, len(piece.dims))
    ends = [writer.name("last"), writer.name("all")]
    block.nodes.append(helper.make_node(
        "Scan", [start.name, *(t.name for t, _ in scanned)], ends, body=graph,
        num_scan_inputs=len(scanned), scan_input_axes=[a for _, a in scanned],
        scan_input_directions=[rng.randint(0, 1) for _ in scanned],
        scan_output_axes=[axis - rng.choice((0, len(piece.dims) + 1))],
        scan_output_directions=[rng.randint(0, 1)],
    ))  # fmt: skip
    shape = (*piece.dims[:axis], steps, *piece.dims[axis:])
    return [Tensor(ends[0], start.dims), Tensor(ends[1], shape)]


def _stated(block: Block, tensor: Tensor) -> ValueInfoProto:
    """An output of a graph, with its shape or without it."""
    return value(tensor.name, None if block.rng.random() < 0.4 else tensor.dims)


def _graph(
    block: Block, name: str, takes: Sequence[ValueInfoProto], gives: Sequence[ValueInfoProto]
) -> GraphProto:
    return helper.make_graph(block.nodes, name, takes, gives, block.initializers)
