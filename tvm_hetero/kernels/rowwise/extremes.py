"""Maximum and minimum over axes, and ReLU, right for infinities and NaN.

TVM's own reductions begin with the smallest finite number, so that the maximum of a row of -inf is
-3.4e38; and a select in its ReLU gives 0 for NaN. Here a reduction begins with the infinity, and

    max(0, x) = 0 > x ? 0 : x        is NaN where x is, and one instruction as before
    max(x, m) = x > m ? x : m        skips a NaN of a reduction, wherever it stands

as ONNX Runtime does in both (except that it keeps a NaN that is the first of its row).
"""

from __future__ import annotations

import math
from typing import Any

from tvm import relax, te, tirx

from tvm_hetero.kernels.rowwise.rows import REST, fills_registers
from tvm_hetero.kernels.tir.block_roles import role

# Values of a tensor that are reduced in two steps, and how far apart those of one chain can be.
_LARGE, _APART = 1024, (64, 32, 16)
# Values of a register, and of a row that is worth two loops.
_REGISTER, _LONG = 16, 64


def make_extreme(bb: relax.BlockBuilder, call: relax.Call, *, in_parts: bool) -> relax.Expr | None:
    """``relax.max`` or ``relax.min`` of floating numbers and known shape, None for any other.

    Parameters
    ----------
    bb
        Receives the kernel.
    call
        The call.
    in_parts
        Whether rows that have no divisor that fills registers may be reduced in two parts. TVM
        schedules those for a GPU only if it knows what they begin with.
    """
    call = bb.normalize(call)
    data = call.args[0].ty
    if not _is_static(data) or not str(data.dtype).startswith(("float16", "float32", "float64")):
        return None
    rank = len(data.shape)
    axes = call.attrs.axis
    given = range(rank) if axes is None else (int(axis) % rank for axis in axes)
    reduced = sorted(given)
    if not reduced:
        return None
    largest, name = call.op.name == "relax.max", call.op.name.rsplit(".", 1)[-1]
    x = call.args[0]
    if len(reduced) == rank:
        x = _few_of_all(bb, x, name, largest=largest)
    split = in_parts and reduced == [rank - 1] and _has_rest(int(x.ty.shape[-1]))
    compute = _of_registers_and_rest if split else reduce_extreme
    return bb.call_te(
        lambda x: compute(x, reduced, bool(call.attrs.keepdims), largest=largest),
        x,
        primfunc_name_hint=name,
    )


def _few_of_all(bb: relax.BlockBuilder, x: relax.Expr, name: str, *, largest: bool) -> relax.Expr:
    """Of a large tensor the extremes of its values so many apart: vectors, not one long chain.

    Of the same rank.
    """
    extents = [int(extent) for extent in x.ty.shape.values]
    size = math.prod(extents)
    apart = next((each for each in _APART if size % each == 0), 0)
    if size < _LARGE or not apart:
        return x
    rows = bb.emit(relax.op.reshape(x, [size // apart, apart]))
    few = bb.call_te(
        lambda x: reduce_extreme(x, [0], False, largest=largest), rows, primfunc_name_hint=name
    )
    return bb.emit(relax.op.reshape(bb.emit(few), [*[1] * (len(extents) - 1), apart]))


def reduce_extreme(x: te.Tensor, axes: list[int], keep: bool, *, largest: bool) -> te.Tensor:
    """Reduce over `axes`; NaN are skipped."""
    reducer = _reducer(largest=largest)
    points = [te.reduce_axis((0, x.shape[axis]), f"k{axis}") for axis in axes]
    shape = [1 if d in axes else n for d, n in enumerate(x.shape) if keep or d not in axes]

    def value(*at: Any) -> Any:
        kept = iter(at)
        place = []
        for d in range(len(x.shape)):
            if d in axes:
                place.append(points[axes.index(d)])
                if keep:
                    next(kept)
            else:
                place.append(next(kept))
        return reducer(x[tuple(place)], axis=points)

    return te.compute(shape, value, name=f"{x.op.name}_red")


def _has_rest(length: int) -> bool:
    """Whether a row has no divisor that fills registers, as one of 508 = 4 * 127."""
    return length >= _LONG and length % _REGISTER != 0 and not fills_registers(length)


def _reducer(*, largest: bool) -> Any:
    def combine(one: Any, other: Any) -> Any:
        # The value that is new stands first: a NaN in it does not win the comparison.
        return tirx.Max(other, one) if largest else tirx.Min(other, one)

    def identity(kind: str) -> Any:
        return infinity(kind, negative=largest)

    return te.comm_reducer(combine, identity, name="max" if largest else "min")


def _of_registers_and_rest(
    x: te.Tensor, _axes: list[int], keep: bool, *, largest: bool
) -> te.Tensor:
    """Reduce each row in two parts, whole registers and what is left, so that `rows` fits."""
    reducer, join = _reducer(largest=largest), tirx.Max if largest else tirx.Min
    *rows, length = (int(extent) for extent in x.shape)
    whole = length // _REGISTER * _REGISTER
    k, r = te.reduce_axis((0, whole), "k"), te.reduce_axis((0, length - whole), "r")
    most = te.compute(rows, lambda *at: reducer(x[(*at, k)], axis=[k]), name=f"{x.op.name}_whole")
    rest = te.compute(
        rows,
        lambda *at: reducer(x[(*at, r + whole)], axis=[r]),
        name=f"{x.op.name}_rest",
        attrs=role(REST),
    )

    def joined(*at: Any) -> Any:
        at = at[: len(rows)]
        return join(most[at], rest[at])

    return te.compute([*rows, 1] if keep else rows, joined, name=f"{x.op.name}_red")


def make_place(bb: relax.BlockBuilder, call: relax.Call) -> relax.Expr | None:
    """``relax.argmax`` or ``argmin``: the first place of the extreme, 0 where all is NaN."""
    call = bb.normalize(call)
    data = call.args[0].ty
    dtype = str(data.dtype)
    if not _is_static(data) or call.attrs.axis is None or dtype == "bfloat16":
        return None
    axis, largest = int(call.attrs.axis) % len(data.shape), call.op.name == "relax.argmax"
    lowest = tirx.min_value(dtype) if largest else tirx.max_value(dtype)
    if dtype.startswith("float"):
        lowest = infinity(dtype, negative=largest)

    def combine(one: Any, other: Any) -> tuple[Any, Any]:
        wins = other[1] > one[1] if largest else other[1] < one[1]
        wins = tirx.any(wins, tirx.all(other[1] == one[1], other[0] < one[0]))
        return tirx.Select(wins, other[0], one[0]), tirx.Select(wins, other[1], one[1])

    reducer = te.comm_reducer(
        combine, lambda kind, _: (tirx.const(0, kind), lowest), name=call.op.name[len("relax.") :]
    )

    def place(x: te.Tensor) -> te.Tensor:
        k = te.reduce_axis((0, x.shape[axis]), "k")

        def found(*at: Any) -> Any:
            at = at[:axis] + at[axis + 1 :] if call.attrs.keepdims else at
            return reducer((k.var.astype("int64"), x[(*at[:axis], k, *at[axis:])]), axis=k)

        shape = [n for d, n in enumerate(x.shape) if d != axis]
        if call.attrs.keepdims:
            shape.insert(axis, 1)
        both = te.compute(shape, found, name=f"{x.op.name}_red_temp")
        return te.compute(shape, lambda *at: both[0][at], name=f"{x.op.name}_red")

    return bb.call_te(place, call.args[0], primfunc_name_hint=call.op.name[len("relax.") :])


def infinity(dtype: str, *, negative: bool) -> tirx.PrimExpr:
    """Return the infinity of a floating type."""
    found = tirx.infinity(dtype)
    return -found if negative else found


def make_relu(bb: relax.BlockBuilder, call: relax.Call) -> relax.Expr | None:
    """``relax.nn.relu`` of floating numbers, which keeps NaN."""
    call = bb.normalize(call)
    data = call.args[0].ty
    if not _is_static(data) or not str(data.dtype).startswith(("float", "bfloat16")):
        return None
    zero = tirx.const(0, str(data.dtype))
    return bb.call_te(
        lambda x: te.compute(x.shape, lambda *at: tirx.Max(zero, x[at]), name="compute"),
        call.args[0],
        primfunc_name_hint="relu",
    )


def _is_static(data: Any) -> bool:
    return isinstance(data.shape, relax.ShapeExpr) and all(
        isinstance(extent, int | tirx.IntImm) for extent in data.shape.values
    )
