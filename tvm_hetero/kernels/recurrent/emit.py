"""ONNX's LSTM, GRU and RNN as tasks: for each direction a product and a kernel.

    x [T B, I] @ W' + biases     the input's part of all gates and steps: an ordinary product
    recurrence                   all steps of a direction in one kernel (`recurrent.kernel`)
    Y                            both directions side by side

What one direction needs it computes for itself, so two directions can run on two devices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tvm import relax

from tvm_hetero.errors import ModelError
from tvm_hetero.kernels.recurrent.kernel import recur
from tvm_hetero.kernels.recurrent.layout import layout_of
from tvm_hetero.kernels.recurrent.node import (
    RecurrentAttributes,
    RecurrentFactors,
    RecurrentOperands,
    computed_in,
    recurrences_of,
)
from tvm_hetero.kernels.recurrent.operands import cast_to, extents_of, join, reshape, turn
from tvm_hetero.kernels.recurrent.packing import pack_operands
from tvm_hetero.kernels.recurrent.recurrence import GRU, LSTM, RNN, Recurrence

if TYPE_CHECKING:
    Results = tuple[relax.Expr, ...]


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
    recurrences = recurrences_of(cell, operands, attributes)
    dtype = str(operands.x.ty.dtype)
    operands = _widened(bb, operands)
    directions = [
        _direction(bb, r, d, operands, attributes.of_direction(d))
        for d, r in enumerate(recurrences)
    ]
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


def _widened(bb: relax.BlockBuilder, o: RecurrentOperands) -> RecurrentOperands:
    """Operands of 16 bits as float32; lengths as int32."""
    dtype = computed_in(o)
    kinds = {name: "int32" if name == "sequence_lens" else dtype for name, _ in o.items()}
    return replace(o, **{name: cast_to(bb, x, kinds[name]) for name, x in o.items()})


def _direction(
    bb: relax.BlockBuilder,
    r: Recurrence,
    d: int,
    o: RecurrentOperands,
    factors: RecurrentFactors,
) -> list[relax.Expr]:
    """Y, Y_h and, of an LSTM, Y_c of one direction."""
    args = pack_operands(bb, r, layout_of(r), d, o, factors)
    state = [r.batch, r.hidden]
    shapes = [[r.steps, *state], *([state, state] if r.cell == LSTM else [state])]
    name = bb.add_func(recur(r), f"{r.cell.lower()}_{'reverse' if r.reverse else 'forward'}")
    types = [relax.TensorType(shape, r.dtype) for shape in shapes]
    call = bb.emit(relax.call_tir(name, relax.Tuple(args), types))
    return [bb.emit(relax.TupleGetItem(call, i)) for i in range(len(types))]


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
