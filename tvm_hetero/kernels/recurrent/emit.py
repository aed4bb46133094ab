"""ONNX's LSTM, GRU and RNN as tasks: for each direction a product and a kernel.

    x [T B, I] @ W' + biases     the input's part of all gates and steps: an ordinary product
    recurrence                   all steps of a direction in one kernel (`recurrent.kernel`)
    Y                            both directions side by side

What one direction needs it computes for itself, so two directions can run on two devices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from tvm import relax

from tvm_hetero.errors import ModelError
from tvm_hetero.kernels.recurrent.activations import CellActivation, activations_of
from tvm_hetero.kernels.recurrent.kernel import recur
from tvm_hetero.kernels.recurrent.layout import RecurrentLayout, columns_of, layout_of
from tvm_hetero.kernels.recurrent.operands import (
    add,
    cast_to,
    constant_of,
    extents_of,
    join,
    reshape,
    slice_rows,
    take_direction,
    take_rows,
    turn,
)
from tvm_hetero.kernels.recurrent.recurrence import (
    FUNCTIONS,
    GATES,
    GRU,
    LSTM,
    RNN,
    Recurrence,
    require_valid,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Results = tuple[relax.Expr, ...]

FORWARD, REVERSE, BIDIRECTIONAL = "forward", "reverse", "bidirectional"
_DIRECTIONS = {FORWARD: (False,), REVERSE: (True,), BIDIRECTIONAL: (False, True)}
_DEFAULTS = {
    LSTM: ("Sigmoid", "Tanh", "Tanh"), GRU: ("Sigmoid", "Tanh"), RNN: ("Tanh",),
}  # fmt: skip
_NARROW, _WIDE = ("float16", "bfloat16"), "float32"


@dataclass(frozen=True)
class RecurrentOperands:
    """The inputs of a node, as ONNX names them; None for those that are not given.

    Attributes
    ----------
    x
        ``[T, B, I]``, or ``[B, T, I]`` with layout 1.
    w, r
        ``[D, gates H, I]`` and ``[D, gates H, H]``, for D directions.
    b
        ``[D, 2 gates H]``: first those of the input, then those of the state.
    sequence_lens
        ``[B]``, whole numbers from 0 to T.
    initial_h, initial_c
        ``[D, B, H]``, or ``[B, D, H]`` with layout 1.
    p
        ``[D, 3 H]``: for the gates i, o, f of an LSTM.
    """

    x: relax.Expr
    w: relax.Expr
    r: relax.Expr
    b: relax.Expr | None = None
    sequence_lens: relax.Expr | None = None
    initial_h: relax.Expr | None = None
    initial_c: relax.Expr | None = None
    p: relax.Expr | None = None

    def items(self) -> list[tuple[str, relax.Expr]]:
        """Those that are given, by name."""
        return [(name, value) for name, value in vars(self).items() if value is not None]


@dataclass(frozen=True)
class RecurrentAttributes:
    """The attributes of a node, as ONNX names them, with its defaults; empty lists for none."""

    direction: str = FORWARD
    hidden_size: int | None = None
    layout: int = 0
    activations: Sequence[str] = ()
    activation_alpha: Sequence[float] = ()
    activation_beta: Sequence[float] = ()
    clip: float | None = None
    input_forget: bool = False
    linear_before_reset: bool = False


def lstm(
    bb: relax.BlockBuilder,
    operands: RecurrentOperands,
    attributes: RecurrentAttributes = RecurrentAttributes(),
) -> Results:
    """``(Y, Y_h, Y_c)`` of ONNX's LSTM.

    Parameters
    ----------
    bb
        Builder in whose dataflow block the tasks are emitted.
    operands, attributes
        Of the node.

    Raises
    ------
    ModelError
        A shape, type or attribute is not as ONNX has it, or is one that no kernel computes.
    """
    return _emit(bb, LSTM, operands, attributes)


def gru(
    bb: relax.BlockBuilder,
    operands: RecurrentOperands,
    attributes: RecurrentAttributes = RecurrentAttributes(),
) -> Results:
    """``(Y, Y_h)`` of ONNX's GRU; see `lstm`."""
    return _emit(bb, GRU, operands, attributes)


def rnn(
    bb: relax.BlockBuilder,
    operands: RecurrentOperands,
    attributes: RecurrentAttributes = RecurrentAttributes(),
) -> Results:
    """``(Y, Y_h)`` of ONNX's RNN; see `lstm`."""
    return _emit(bb, RNN, operands, attributes)


def _emit(
    bb: relax.BlockBuilder, cell: str, given: RecurrentOperands, attributes: RecurrentAttributes
) -> Results:
    operands = _steps_first(bb, given, attributes)
    recurrences = _recurrences(cell, operands, attributes)
    dtype = str(operands.x.ty.dtype)
    operands = _widened(bb, operands)
    directions = [_direction(bb, r, d, operands) for d, r in enumerate(recurrences)]
    return tuple(
        _stacked(bb, [cast_to(bb, part, dtype) for part in parts], i == 0, attributes.layout)
        for i, parts in enumerate(zip(*directions, strict=True))
    )


def _steps_first(
    bb: relax.BlockBuilder, o: RecurrentOperands, attributes: RecurrentAttributes
) -> RecurrentOperands:
    """The operands as layout 0 has them."""
    if attributes.layout not in (0, 1):
        raise ModelError(f"layout {attributes.layout}: expected 0 or 1")
    if not attributes.layout:
        return o

    def swapped(x: relax.Expr | None) -> relax.Expr | None:
        if x is None:
            return None
        shape = extents_of(x)
        if len(shape) != 3:
            raise ModelError(f"an operand of shape {shape}: expected three dimensions")
        return turn(bb, x, shape, (1, 0, 2), [shape[1], shape[0], shape[2]])

    x, h, c = swapped(o.x), swapped(o.initial_h), swapped(o.initial_c)
    return replace(o, x=x, initial_h=h, initial_c=c)


def _recurrences(
    cell: str, o: RecurrentOperands, attributes: RecurrentAttributes
) -> list[Recurrence]:
    """What each direction computes; refuses what does not fit together."""
    if attributes.direction not in _DIRECTIONS:
        raise ModelError(
            f"direction {attributes.direction!r}: expected one of {', '.join(_DIRECTIONS)}"
        )
    directions = _DIRECTIONS[attributes.direction]
    functions = _functions(cell, attributes, len(directions))
    dtype = str(o.x.ty.dtype)
    steps, batch, hidden = _sizes(cell, o, attributes, len(directions))
    each = FUNCTIONS[cell]
    found = [
        Recurrence(
            cell, steps, batch, hidden, functions[d * each : (d + 1) * each], reverse,
            clip=float(attributes.clip or 0.0),
            coupled=cell == LSTM and bool(attributes.input_forget),
            reset_after=cell == GRU and bool(attributes.linear_before_reset),
            initial_h=o.initial_h is not None,
            initial_c=o.initial_c is not None,
            lengths=o.sequence_lens is not None,
            peepholes=o.p is not None,
            dtype=_WIDE if dtype in _NARROW else dtype,
        )
        for d, reverse in enumerate(directions)
    ]  # fmt: skip
    for r in found:
        require_valid(r)
    return found


def _functions(
    cell: str, attributes: RecurrentAttributes, directions: int
) -> tuple[CellActivation, ...]:
    names = list(attributes.activations) or list(_DEFAULTS[cell]) * directions
    if len(names) != FUNCTIONS[cell] * directions:
        raise ModelError(
            f"activations {', '.join(names)}: expected {FUNCTIONS[cell]} for each direction of "
            f"{attributes.direction}"
        )
    return activations_of(names, attributes.activation_alpha, attributes.activation_beta)


def _sizes(
    cell: str, o: RecurrentOperands, attributes: RecurrentAttributes, directions: int
) -> tuple[int, int, int]:
    """T, B and H; refuses operands of other shapes and types."""
    if len(extents_of(o.x)) != 3 or len(extents_of(o.r)) != 3:
        raise ModelError(
            f"X of shape {extents_of(o.x)} and R of shape {extents_of(o.r)}: expected three "
            "dimensions of each"
        )
    steps, batch, width = extents_of(o.x)
    hidden, gates = extents_of(o.r)[2], GATES[cell]
    if attributes.hidden_size not in (None, hidden):
        raise ModelError(f"hidden_size {attributes.hidden_size}: R is for {hidden} units")
    state = [directions, batch, hidden]
    expected = {
        "x": [steps, batch, width],
        "w": [directions, gates * hidden, width],
        "r": [directions, gates * hidden, hidden],
        "b": [directions, 2 * gates * hidden],
        "sequence_lens": [batch],
        "initial_h": state,
        **({"initial_c": state, "p": [directions, 3 * hidden]} if cell == LSTM else {}),
    }
    for name, value in o.items():
        _require(cell, name, value, expected, str(o.x.ty.dtype))
    return steps, batch, hidden


def _require(
    cell: str, name: str, value: relax.Expr, expected: dict[str, list[int]], dtype: str
) -> None:
    if name not in expected:
        raise ModelError(f"{cell} with {name}: it has no such input")
    kinds = ("int32", "int64") if name == "sequence_lens" else (dtype,)
    shape, kind = extents_of(value), str(value.ty.dtype)
    if shape != expected[name] or kind not in kinds:
        raise ModelError(
            f"{cell} with {name} of {kind}{shape}: expected {' or '.join(kinds)}{expected[name]}"
        )


def _widened(bb: relax.BlockBuilder, o: RecurrentOperands) -> RecurrentOperands:
    """Operands of 16 bits as float32; lengths as int32."""
    dtype = _WIDE if str(o.x.ty.dtype) in _NARROW else str(o.x.ty.dtype)
    kinds = {name: "int32" if name == "sequence_lens" else dtype for name, _ in o.items()}
    return replace(o, **{name: cast_to(bb, x, kinds[name]) for name, x in o.items()})


def _direction(
    bb: relax.BlockBuilder, r: Recurrence, d: int, o: RecurrentOperands
) -> list[relax.Expr]:
    """Y, Y_h and, of an LSTM, Y_c of one direction."""
    layout = layout_of(r)
    args = [_product(bb, r, layout, d, o), _weights(bb, layout, take_direction(bb, o.r, d))]
    if r.reset_after:
        args.append(_own_bias(bb, r, layout, d, o))
    if o.p is not None:
        args.append(_peepholes(bb, layout, take_direction(bb, o.p, d)))
    args += [] if o.sequence_lens is None else [o.sequence_lens]
    states = [each for each in (o.initial_h, o.initial_c) if each is not None]
    args += [take_direction(bb, each, d) for each in states]
    state = [r.batch, r.hidden]
    shapes = [[r.steps, *state], *([state, state] if r.cell == LSTM else [state])]
    name = bb.add_func(recur(r), f"{r.cell.lower()}_{'reverse' if r.reverse else 'forward'}")
    types = [relax.TensorType(shape, r.dtype) for shape in shapes]
    call = bb.emit(relax.call_tir(name, relax.Tuple(args), types))
    return [bb.emit(relax.TupleGetItem(call, i)) for i in range(len(types))]


def _product(
    bb: relax.BlockBuilder, r: Recurrence, layout: RecurrentLayout, d: int, o: RecurrentOperands
) -> relax.Expr:
    """What the input contributes to all gates, with biases."""
    width, columns = extents_of(o.x)[2], columns_of(layout)
    w = take_rows(bb, take_direction(bb, o.w, d), columns)
    turned = turn(bb, w, [layout.columns, width], (1, 0), [width, layout.columns])
    rows = reshape(bb, o.x, [r.steps * r.batch, width])
    product = bb.emit(relax.op.matmul(rows, turned))
    if o.b is not None:
        bias = take_rows(bb, _bias(bb, r, take_direction(bb, o.b, d)), columns)
        product = bb.emit(relax.op.add(product, bias))
    return reshape(bb, product, [r.steps, r.batch, layout.columns])


def _bias(bb: relax.BlockBuilder, r: Recurrence, b: relax.Expr) -> relax.Expr:
    """Both biases of each gate; of the input alone where the other is not simply added."""
    size = r.gates * r.hidden
    one, other = slice_rows(bb, b, 0, size), slice_rows(bb, b, size, 2 * size)
    if not r.reset_after:
        return add(bb, one, other)
    last = size - r.hidden
    both = add(bb, slice_rows(bb, one, 0, last), slice_rows(bb, other, 0, last))
    return join(bb, [both, slice_rows(bb, one, last, size)], 0)


def _own_bias(
    bb: relax.BlockBuilder, r: Recurrence, layout: RecurrentLayout, d: int, o: RecurrentOperands
) -> relax.Expr:
    """The bias of the last gate's product with the state."""
    if o.b is None:
        return constant_of(np.zeros(layout.padded, r.dtype))
    b = take_direction(bb, o.b, d)
    last = slice_rows(bb, b, 2 * r.gates * r.hidden - r.hidden, 2 * r.gates * r.hidden)
    return take_rows(bb, last, _padded(layout))


def _padded(layout: RecurrentLayout) -> NDArray[np.int64]:
    """Each unit, and one beyond the last for those that no one reads."""
    return np.minimum(np.arange(layout.padded, dtype=np.int64), layout.hidden)


def _peepholes(bb: relax.BlockBuilder, layout: RecurrentLayout, p: relax.Expr) -> relax.Expr:
    """``[3, padded]`` of ``[3 H]``."""
    hidden = layout.hidden
    unit = _padded(layout)
    rows = [np.where(unit < hidden, unit + gate * hidden, 3 * hidden) for gate in range(3)]
    return reshape(bb, take_rows(bb, p, np.concatenate(rows)), [3, layout.padded])


def _weights(bb: relax.BlockBuilder, layout: RecurrentLayout, r: relax.Expr) -> relax.Expr:
    """The state's matrix in the order in which a kernel reads it (`recurrent.layout`)."""
    columns, parts = columns_of(layout), []
    for group in layout.groups:
        gates, size = len(group.gates), len(group.gates) * layout.padded
        rows = take_rows(bb, r, columns[group.column : group.column + size])
        shape = [layout.blocks, gates, layout.block, layout.hidden]
        parts.append(turn(bb, rows, shape, (0, 3, 1, 2), [size * layout.hidden]))
    return join(bb, parts, 0)


def _stacked(
    bb: relax.BlockBuilder, parts: Sequence[relax.Expr], steps: bool, layout: int
) -> relax.Expr:
    """One result of all directions: the directions are an axis of it."""
    count, shape = len(parts), extents_of(parts[0])
    axis = 1 if steps else 0
    placed = [reshape(bb, part, [*shape[:axis], 1, *shape[axis:]]) for part in parts]
    joined = join(bb, placed, axis)
    if not layout:
        return joined
    shape = [*shape[:axis], count, *shape[axis:]]  # [T, D, B, H] or [D, B, H]
    axes = (2, 0, 1, 3) if steps else (1, 0, 2)
    return turn(bb, joined, shape, axes, [shape[a] for a in axes])
