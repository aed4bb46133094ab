"""The operands of a direction as its kernel wants them: arranged as `recurrent.layout` says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from tvm import relax

from tvm_hetero.errors import ModelError
from tvm_hetero.kernels.recurrent.layout import RecurrentLayout, columns_of
from tvm_hetero.kernels.recurrent.levels_of_input import input_levels
from tvm_hetero.kernels.recurrent.node import RecurrentFactors, RecurrentOperands
from tvm_hetero.kernels.recurrent.operands import (
    add,
    constant_of,
    extents_of,
    join,
    reshape,
    slice_rows,
    take_direction,
    take_rows,
    turn,
    value_of,
)
from tvm_hetero.kernels.recurrent.recurrence import Recurrence

if TYPE_CHECKING:
    from numpy.typing import NDArray


NO_FACTORS = RecurrentFactors()


def pack_operands(
    bb: relax.BlockBuilder,
    r: Recurrence,
    layout: RecurrentLayout,
    d: int,
    o: RecurrentOperands,
    factors: RecurrentFactors = NO_FACTORS,
) -> list[relax.Expr]:
    """What the kernel of direction ``d`` reads (`recurrent.tensors`).

    Parameters
    ----------
    bb, r, layout, d
        Where it is emitted, what is computed, how it lies in memory, and of which direction.
    o
        The operands of the node.
    factors
        Of weights in bytes.
    """
    args, state = [_product(bb, r, layout, d, o, factors.input)], take_direction(bb, o.r, d)
    if factors.state is None:
        args.append(_weights(bb, layout, state))
    else:
        args += _bytes(layout, state, factors.state)
    if r.reset_after:
        args.append(_own_bias(bb, r, layout, d, o))
    if o.p is not None:
        args.append(_peepholes(bb, layout, take_direction(bb, o.p, d)))
    args += [] if o.sequence_lens is None else [o.sequence_lens]
    states = [each for each in (o.initial_h, o.initial_c) if each is not None]
    return [*args, *(take_direction(bb, each, d) for each in states)]


def _product(
    bb: relax.BlockBuilder,
    r: Recurrence,
    layout: RecurrentLayout,
    d: int,
    o: RecurrentOperands,
    factors: NDArray[Any] | None,
) -> relax.Expr:
    """What the input contributes to all gates, with biases."""
    columns, w = columns_of(layout), take_direction(bb, o.w, d)
    if factors is None:
        product = _plain_product(bb, r, o.x, take_rows(bb, w, columns))
    else:
        product = _product_of_bytes(bb, r, o.x, _known(w), factors, columns)
    if o.b is not None:
        bias = take_rows(bb, _bias(bb, r, take_direction(bb, o.b, d)), columns)
        product = bb.emit(relax.op.add(product, bias))
    return reshape(bb, product, [r.steps, r.batch, layout.columns])


def _plain_product(
    bb: relax.BlockBuilder, r: Recurrence, x: relax.Expr, w: relax.Expr
) -> relax.Expr:
    rows, width = extents_of(w)
    turned = turn(bb, w, [rows, width], (1, 0), [width, rows])
    return bb.emit(relax.op.matmul(reshape(bb, x, [r.steps * r.batch, width]), turned))


def _product_of_bytes(
    bb: relax.BlockBuilder,
    r: Recurrence,
    x: relax.Expr,
    w: NDArray[Any],
    factors: NDArray[Any],
    columns: NDArray[np.int64],
) -> relax.Expr:
    """The product with weights in bytes: in integers, if the input is in levels."""
    numbers = np.append(w, np.zeros((1, w.shape[1]), w.dtype), axis=0)[columns]
    by = np.append(factors, 0)[columns].astype(np.float32)
    levels = input_levels(bb, x)
    if levels is None:
        return _plain_product(bb, r, x, constant_of((numbers * by[:, None]).astype(np.float32)))
    return levels.product(bb, numbers.T, by)


def _known(w: relax.Expr) -> NDArray[Any]:
    value = value_of(w)
    if value is None:
        raise ModelError("weights in bytes that are no constant: expected those of the model")
    return value


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


def _bytes(layout: RecurrentLayout, r: relax.Expr, factors: NDArray[Any]) -> list[relax.Expr]:
    """Words of weights in that order, each of four units; factors and sums of the columns."""
    value, columns = _known(r), columns_of(layout)
    empty = np.zeros((1, layout.depth * 4))
    rows = np.concatenate([np.pad(value, ((0, 0), (0, empty.size - value.shape[1]))), empty])[
        columns
    ]
    shape = (layout.blocks, -1, layout.block, layout.depth, 4)
    words = np.ascontiguousarray(rows.astype(np.int8).reshape(shape).transpose(0, 3, 1, 2, 4))
    return [
        constant_of(words.view(np.int32).reshape(-1)),
        constant_of(np.append(factors, 0)[columns].astype(np.float32)),
        constant_of(rows.sum(axis=1).astype(np.int32)),
    ]
