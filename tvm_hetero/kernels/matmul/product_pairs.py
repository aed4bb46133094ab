"""Products of bfloat16 with constants of bfloat16: two steps of the reduction to an instruction.

With one row such a product is as fast as the memory; from `ROWS` rows on it is arithmetic that
takes the time, and of this a fifth is making float32 of the constants. Where the unit has an
instruction for it (`llvm_functions`, `kernels.cpu.vector_unit.VectorUnit.dots`), numbers meet as
they are:

    sums[m, n] += left[m, 2 j] * right[2 j, n] + left[m, 2 j + 1] * right[2 j + 1, n]

for a vector of columns n at once, in float32: half as many multiplications, and no conversion.
A left side of float32 is not for this: it would have to be rounded, which no one has asked for.

    pairs      two steps of the left side as one word: read by all parts of the columns
    product    for each block of columns, a tile of rows: of two steps the columns are read as they
               stand (packed: `product`), side by side, and put in turn, number by number, each
               vector of pairs out of two registers; then they meet the pairs of every row
    what was fused behind reads the sums                              `written_products`

A tile takes whole blocks of columns, so that two steps are one piece of memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tvm import s_tir, tirx

from tvm_hetero.kernels.cpu.llvm_functions import dot_bfloat16, dot_text, with_functions
from tvm_hetero.kernels.matmul.product_bfloat16 import (
    BYTES,
    LANES,
    Bfloat16Product,
    find_product,
    largest_divisor,
    pack_left,
)
from tvm_hetero.kernels.matmul.written_products import CYCLES, Sums, region_of, with_sums
from tvm_hetero.kernels.tir.nests import iterators, nest_over, range_of
from tvm_hetero.kernels.tir.prefetch import ALL, LINE, OUTER, prefetch_line
from tvm_hetero.kernels.tir.statements import (
    bind_value,
    broadcast,
    load,
    loop,
    ramp,
    real,
    store,
    tensor,
    whole,
)

if TYPE_CHECKING:
    from tvm_hetero.kernels.cpu.vector_unit import VectorUnit

    Expr = Any

# Rows from which on arithmetic takes longer than the memory.
ROWS = 4
_MOST_ROWS = 8
# Registers for what two steps of a block are, beside the sums.
_SPARE = 6


def in_pairs(func: tirx.PrimFunc, unit: VectorUnit) -> tirx.PrimFunc:
    """The kernel by pairs, to be scheduled by `written_products.schedule_parts`.

    Raises
    ------
    ValueError
        If it is no such product, or the unit has no instruction for it.
    """
    if not unit.dots or unit.lanes != LANES:
        raise ValueError("no instruction multiplies pairs of bfloat16")

    def tile(rows: int, block: int) -> int:
        most = min(_MOST_ROWS, (unit.registers - _SPARE) // (block // LANES))
        return largest_divisor(rows, most)

    found = find_product(func, ROWS, tile)
    main, nest = found.main, found.nests[found.at]
    waits = not unit.follows or main.rows > ROWS
    far = main.weights > unit.l2 // 2 and main.rows == main.tile and waits
    made = [pack_left(main, found.read), _summing(main, nest.block.annotations, unit, far=far)]
    sums = Sums(main.sums, 1, main.block, made, [main.pairs])
    return with_sums(func, found.nests, found.at, sums)


def _summing(
    main: Bfloat16Product, annotations: dict[str, Any], unit: VectorUnit, *, far: bool
) -> tirx.Stmt:
    """The nest over blocks of columns, matrices and tiles of rows."""
    t, lanes = main.tile, range(0, main.block, LANES)
    extents = (main.blocks, main.matrices, main.rows // t)
    sums = [tensor(f"sums_{r}", [main.block], scope="local") for r in range(t)]
    cycles = main.depth // 2 * t * main.block // LANES

    def block(variables: list[tirx.Var]) -> s_tir.SBlock:
        o, z, at = variables

        def each(value: Callable[[int, Expr], tirx.Stmt]) -> list[tirx.Stmt]:
            return [value(r, ramp(whole(v), LANES)) for v in lanes for r in range(t)]

        def step(j: Expr) -> list[tirx.Stmt]:
            lines = _asked(main, o, j, unit) if far else []
            return [*lines, *_step(main, [z, at * t], o, j, sums)]

        statements = [
            *each(lambda r, v: store(sums[r], [v], broadcast(real(0), LANES))),
            loop("j", main.depth // 2, step),
            *each(lambda r, v: store(main.sums, [z, o, at * t + r, v], load(sums[r], v))),
        ]
        rows = range_of(at * t, t)
        right = [range_of(0, 1)] * (len(main.right.indices) - 3)
        return s_tir.SBlock(
            iterators(variables, extents),
            [
                region_of(main.right.source, [*right, range_of(o, 1), None, None]),
                region_of(main.pairs, [range_of(z, 1), rows, None]),
            ],
            [region_of(main.sums, [range_of(z, 1), range_of(o, 1), rows, None])],
            "product",
            with_functions([dot_text(unit.dots)], statements),
            alloc_buffers=sums,
            annotations={**annotations, CYCLES: cycles},
        )

    return nest_over(("part", "z", "tile"), extents, block)


def _asked(main: Bfloat16Product, o: Expr, j: Expr, unit: VectorUnit) -> list[tirx.Stmt]:
    """Ask for the constants of two steps that come later, line by line (`prefetch`).

    Where a prefetcher follows, four rows need not, and more ask into the outer caches: so it is
    quickest on Zen 4 (`python -m benchmarks.decode_kernels --kind product` prints what rows take).
    """
    later = j * 2 + unit.ahead // (BYTES * main.block)
    places = [divmod(at, main.block) for at in range(0, 2 * main.block, LINE // BYTES)]
    lines = [main.constants(o, later + step, whole(column)) for step, column in places]
    return [
        prefetch_line(main.right.source, line, OUTER if unit.follows else ALL) for line in lines
    ]


def _step(
    main: Bfloat16Product, row: Sequence[Expr], o: Expr, j: Expr, sums: Sequence[tirx.Var]
) -> list[tirx.Stmt]:
    """What the ``j``-th two steps add to the sums of a tile."""
    z, m = row
    statements: list[tirx.Stmt] = []

    def named(name: str, value: Expr) -> tirx.Var:
        var, bind = bind_value(name, value)
        statements.append(bind)
        return var

    read = [_vector(main, o, j, at) for at in range(0, 2 * main.block, 2 * LANES)]
    stands = [named("steps", vector) for vector in read]
    starts = range(0, main.block, LANES)
    columns = [named("columns", _in_turn(stands, v, main.block)) for v in starts]
    # Row by row, so that one register is enough for the pairs.
    for r, total in enumerate(sums):
        pair = named("pair", broadcast(load(main.pairs, z, m + r, j), LANES))
        for v, column in zip(starts, columns, strict=True):
            here = ramp(whole(v), LANES)
            statements.append(store(total, [here], dot_bfloat16(load(total, here), pair, column)))
    return statements


def _vector(main: Bfloat16Product, o: Expr, j: Expr, at: int) -> Expr:
    """So many numbers of two steps of a block, which stand side by side, from ``at`` on."""
    place = main.constants(o, j * 2 + at // main.block, ramp(whole(at % main.block), 2 * LANES))
    return tirx.reinterpret(f"uint16x{2 * LANES}", load(main.right.source, *place))


def _in_turn(stands: Sequence[Expr], v: int, block: int) -> Expr:
    """The columns from ``v`` on of both steps, number by number in turn."""
    first, second = divmod(v, 2 * LANES), divmod(block + v, 2 * LANES)
    order = [place for i in range(LANES) for place in (first[1] + i, 2 * LANES + second[1] + i)]
    both = tirx.Shuffle([stands[first[0]], stands[second[0]]], order)
    return tirx.reinterpret(f"float32x{LANES}", both)
