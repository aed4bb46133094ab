"""The left side of a product with weights of few bits, as integers of 16 bits.

The values of a group (`quantized.product`) are rounded to integers with a step of their own,
the largest magnitude over `MOST`: a step is 1 / 258 of what 8 bits have, and one large value costs
nothing outside of its group. For each row m and group q

    step[m, q]     the step, over 2^bits as the stored scales are times that
    less[m, q]     what codes are larger than weights, times the numbers: to begin a sum with
    pairs[m, j]    two numbers to a word of 32 bits: those that meet the codes at one place of the
                   lower and the upper half of a word of codes

A value that is no number, or infinite, makes the step no number, or infinite: so is the result
then. Comparing bits does that: as integers those of magnitudes stand in their order, and what
is no number above all others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tvm import s_tir, tirx
from tvm.ir.expr import TensorLoad

from tvm_hetero.kernels.tir.left_side import locate_row
from tvm_hetero.kernels.tir.nests import INDEX, loop_over, point, range_of, wrap_in_loops
from tvm_hetero.kernels.tir.statements import bind_value, broadcast, load, ramp, store, tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Expr = Any

MOST = 32767
# No step is smaller than that of this magnitude.
_TINY = 1e-30
_SIGN, _LOWER = 0x7FFFFFFF, 0xFFFF
# Bits of a word.
WORD = 32


@dataclass(frozen=True)
class Numbers:
    """The left side of ``rows`` rows and ``groups`` groups of ``group`` values.

    ``lanes``: of a vector, two of which, or a multiple, are a group.
    """

    matrices: int
    rows: int
    groups: int
    group: int
    bits: int
    lanes: int
    step: tirx.Var
    less: tirx.Var
    pairs: tirx.Var

    @property
    def half(self) -> int:
        """Codes of half a word."""
        return WORD // self.bits // 2


def numbers_of(
    matrices: int, rows: int, groups: int, group: int, bits: int, lanes: int
) -> Numbers:  # fmt: skip
    """With fresh buffers.

    Raises
    ------
    ValueError
        If a group is no whole number of pairs of vectors.
    """
    if group % (2 * lanes):
        raise ValueError(f"a group of {group} in vectors of {lanes}: expected whole pairs of them")
    place = [matrices, rows, groups]
    return Numbers(
        matrices, rows, groups, group, bits, lanes,
        tensor("step", place),
        tensor("less", place, "int32"),
        tensor("pairs", [matrices, rows, groups * group // 2], "int32"),
    )  # fmt: skip


def round_left(numbers: Numbers, left: Callable[[Expr, Expr, Expr], TensorLoad]) -> tirx.Stmt:
    """The nest that makes them; ``left`` reads the value of a matrix, a row and a step.

    Raises
    ------
    ValueError
        If the values of a row do not stand side by side.
    """
    extents = (numbers.matrices, numbers.rows, numbers.groups)
    z, m, q = (tirx.Var(f"v_{name}", INDEX) for name in "zmq")
    read = locate_row(left, (z, m), (*extents[:2], numbers.groups * numbers.group))
    source, first = read(q * numbers.group)
    half = numbers.group // 2
    iters = [
        tirx.IterVar(range_of(0, extent), var, tirx.IterVar.DataPar)
        for extent, var in zip(extents, (z, m, q), strict=True)
    ]
    place = [range_of(i, 1) for i in first[:-1]]
    block = s_tir.SBlock(
        iters,
        [tirx.BufferRegion(source, [*place, range_of(first[-1], numbers.group)])],
        [
            point(numbers.step, [z, m, q]),
            point(numbers.less, [z, m, q]),
            tirx.BufferRegion(
                numbers.pairs, [range_of(z, 1), range_of(m, 1), range_of(q * half, half)]
            ),
        ],
        "numbers",
        tirx.SeqStmt(_body(numbers, read, z, m, q)),
    )
    loops = [loop_over(tirx.Var(n, INDEX), e) for n, e in zip("zmq", extents, strict=True)]
    return wrap_in_loops(loops, [each.loop_var for each in loops], block)


def _body(
    numbers: Numbers,
    read: Callable[[Expr], tuple[tirx.Var, list[Expr]]],
    z: Expr,
    m: Expr,
    q: Expr,
) -> list[tirx.Stmt]:
    """What is done for one row and group."""
    lanes, statements = numbers.lanes, []

    def named(name: str, value: Expr) -> tirx.Var:
        var, bind = bind_value(name, value)
        statements.append(bind)
        return var

    values = []
    for at in range(0, numbers.group, lanes):
        source, indices = read(q * numbers.group + at)
        values.append(named("value", load(source, *indices[:-1], ramp(indices[-1], lanes))))
    size = named("size", _largest(values, lanes))
    statements.append(store(numbers.step, [z, m, q], size * _real(2.0**-numbers.bits / MOST)))
    over = named("over", _real(MOST) / tirx.max(size, _real(_TINY)))
    whole = [named("whole", _rounded(v * broadcast(over, lanes), lanes)) for v in values]
    total = whole[0]
    for other in whole[1:]:
        total = total + other
    less = -(2 ** (numbers.bits - 1))
    statements.append(store(numbers.less, [z, m, q], _across("add", total) * _whole(less)))
    for c in range(0, len(whole), 2):
        first = q * (numbers.group // 2) + c * lanes // 2
        both = _pairs(whole[c], whole[c + 1], numbers)
        statements.append(store(numbers.pairs, [z, m, ramp(first, lanes)], both))
    return statements


def _largest(values: Sequence[Expr], lanes: int) -> Expr:
    """The largest magnitude of some vectors."""
    kind, largest = f"int32x{lanes}", None
    for value in values:
        bits = tirx.bitwise_and(tirx.reinterpret(kind, value), broadcast(_whole(_SIGN), lanes))
        largest = bits if largest is None else tirx.max(largest, bits)
    return tirx.reinterpret("float32", _across("smax", largest))


def _across(what: str, vector: Expr) -> Expr:
    """One number of all lanes of a vector."""
    return tirx.call_llvm_pure_intrin("int32", f"llvm.vector.reduce.{what}", vector)


def _rounded(vector: Expr, lanes: int) -> Expr:
    return tirx.Cast(f"int32x{lanes}", tirx.nearbyint(vector))


def _pairs(one: Expr, other: Expr, numbers: Numbers) -> Expr:
    """Numbers in pairs, of the vectors of two lanes' worth of steps."""
    half = numbers.half
    lower = [i // half * 2 * half + i % half for i in range(numbers.lanes)]
    low = tirx.Shuffle([one, other], lower)
    high = tirx.Shuffle([one, other], [i + half for i in lower])
    kept = tirx.bitwise_and(low, broadcast(_whole(_LOWER), numbers.lanes))
    return tirx.bitwise_or(kept, tirx.shift_left(high, broadcast(_whole(16), numbers.lanes)))


def _real(value: float) -> Expr:
    return tirx.const(value, "float32")


def _whole(value: int) -> Expr:
    return tirx.const(value, "int32")
