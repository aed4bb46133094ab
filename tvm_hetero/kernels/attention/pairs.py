"""Attention on a CPU: pairs of bfloat16, multiplied and added up by one instruction.

Many queries that share a head of keys make a step of one token a matter of arithmetic: each number
of the caches meets as many multiply-adds as there are queries, and becomes a float32 first. A core
that has an instruction for it (`kernels.cpu.vector_unit.VectorUnit.dots`) takes two numbers at a
time as they are:

    sum[i] + a[2 i] * b[2 i] + a[2 i + 1] * b[2 i + 1]      for each lane i of float32

    scores     a: 2 L numbers of a row of keys, b: as many of the query.
    values     a: two rows of values, number by number in turn, b: the powers of both rows.

Half as many instructions, and none that converts. The price: queries and powers become bfloat16
too, as the caches are; their sums stay float32. So this is for caches of bfloat16 that
`SHARED` queries or more read together, and for one token: fewer are at the memory's pace anyhow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tvm import tirx

from tvm_hetero.kernels.cpu.bfloat16_pairs import LANES
from tvm_hetero.kernels.cpu.llvm_functions import dot_bfloat16, load_in_order
from tvm_hetero.kernels.tir.statements import bind_value, broadcast, load, ramp, real

if TYPE_CHECKING:
    from tvm_hetero.kernels.attention.common import Attention
    from tvm_hetero.kernels.cpu.vector_unit import VectorUnit

    Expr = Any

# Queries of a head of keys from which on arithmetic takes longer than the memory.
SHARED = 4


def uses_pairs(a: Attention, unit: VectorUnit) -> bool:
    """Whether this attention is computed by pairs."""
    shared = a.rows == 1 and a.group >= SHARED
    fits = unit.lanes == LANES and a.size % (2 * LANES) == 0
    return bool(unit.dots) and a.dtype == "bfloat16" and shared and fits


def pairs_of_row(
    cache: tirx.Var, place: Sequence[Expr], first: Expr, count: int
) -> tuple[list[Expr], list[tirx.Stmt]]:
    """Some vectors of pairs of a row of a cache, and the statements that read them."""
    found, statements = [], []
    for j in range(0, 2 * LANES * count, 2 * LANES):
        var, bind = bind_value("pairs", load_in_order(cache, [*place, first + j], LANES))
        found.append(var)
        statements.append(bind)
    return found, statements


def multiply_pairs(query: tirx.Var, start: Expr, keys: Sequence[Expr]) -> Expr:
    """The sums of a query's pairs, which begin at ``start``, times those of a key, lane by lane."""
    total = broadcast(real(0), LANES)
    for j, key in enumerate(keys):
        total = dot_bfloat16(total, load(query, ramp(start + j * LANES, LANES)), key)
    return total
