"""Softmax and its logarithm over the last axis, built so that `rows` schedules any length.

TVM's own definition divides every value by the sum; here it is multiplied by the sum's inverse
(at most one unit in the last place apart). And where a long row has no divisor that fills
registers (a vocabulary of 50257 = 29 * 1733), or a short one none at all (197 patches of a ViT),
maximum and sum are those of a whole number of registers and of the rest:

    m = max(max(x[:n]), max(x[n:]))        e = exp(x - m)
    s = sum(e[:n]) + sum(e[n:])            y = e * (1 / s), or x - m - log(s)

16 x 50257 on one core of an AMD EPYC (znver5): 196 us, ONNX Runtime 134 (`python -m
benchmarks.kernels --family softmax`, `benchmarks/results/kernels.json`). Sums of 29 lanes were
slower.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tvm import relax, te, tirx

from tvm_hetero.kernels.rowwise.rows import REST, fills_registers, has_partials
from tvm_hetero.kernels.tir.block_roles import role

if TYPE_CHECKING:
    from collections.abc import Sequence

_REGISTER, _REGISTERS = 16, 64
_LONG = 512


def make_softmax(bb: relax.BlockBuilder, call: relax.Call) -> relax.Expr | None:
    """``softmax`` or ``log_softmax`` over a last axis of known length, None for any other."""
    call = bb.normalize(call)
    data = call.args[0].ty
    shape = list(data.shape or ())
    if not all(isinstance(extent, int | tirx.IntImm) for extent in shape):
        return None
    extents = [int(extent) for extent in shape]
    rank, axis = len(extents), int(call.attrs.axis)
    if str(data.dtype) != "float32" or rank < 2 or axis not in (-1, rank - 1):
        return None
    if min(extents) < 1 or extents[-1] < _REGISTERS:
        return None
    logarithm = call.op.name == "relax.nn.log_softmax"
    return bb.call_te(
        lambda x: _compute(x, extents, logarithm=logarithm),
        call.args[0],
        primfunc_name_hint=call.op.name.rsplit(".", 1)[-1],
        primfunc_attrs={"op_pattern": 4},
    )


def _compute(x: te.Tensor, extents: Sequence[int], *, logarithm: bool) -> te.Tensor:
    *rows, length = extents
    whole = _whole(length)
    largest = _joined(lambda *at: x[at], rows, (whole, length), te.max, tirx.Max)
    powers = te.compute(extents, lambda *at: te.exp(x[at] - largest[at[:-1]]), name="softmax_exp")
    total = _joined(
        lambda *at: powers[at], rows, (whole, length), te.sum, lambda one, rest: one + rest
    )
    if logarithm:
        return te.compute(
            extents, lambda *at: x[at] - largest[at[:-1]] - te.log(total[at[:-1]]), name="softmax"
        )
    one = tirx.const(1.0, "float32")
    inverse = te.compute(rows, lambda *at: one / total[at], name="softmax_inverse")
    return te.compute(extents, lambda *at: powers[at] * inverse[at[:-1]], name="softmax")


def _whole(length: int) -> int:
    """How many values of a row are reduced side by side; what is left is joined with them."""
    if fills_registers(length) or (length < _LONG and has_partials(length)):
        return length
    step = _REGISTERS if length >= _LONG else _REGISTER
    return length // step * step


def _joined(
    read: Callable[..., Any],
    rows: Sequence[int],
    limits: tuple[int, int],
    reduce: Callable[..., Any],
    join: Callable[[Any, Any], Any],
) -> te.Tensor:
    """A row's maximum or sum: of the values before ``limits[0]``, joined with that of the rest."""
    whole, length = limits
    k = te.reduce_axis((0, whole), "k")
    most = te.compute(rows, lambda *at: reduce(read(*at, k), axis=[k]), name="softmax_whole")
    if whole == length:
        return most
    r = te.reduce_axis((0, length - whole), "r")
    rest = te.compute(
        rows,
        lambda *at: reduce(read(*at, r + whole), axis=[r]),
        name="softmax_rest",
        attrs=role(REST),
    )
    return te.compute(rows, lambda *at: join(most[at], rest[at]), name="softmax_joined")
