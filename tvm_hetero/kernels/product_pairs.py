"""Products of bfloat16 with constants of bfloat16: two steps of the reduction to an instruction.

With one row such a product is as fast as the memory; from `ROWS` rows on it is arithmetic that
takes the time, and of this a fifth is making float32 of the constants. Where the unit has an
instruction for it (`llvm_functions`, `facts.VectorUnit.dots`), numbers meet as they are:

    sums[m, n] += left[m, 2 j] * right[2 j, n] + left[m, 2 j + 1] * right[2 j + 1, n]

for a vector of columns n at once, in float32: half as many multiplications, and no conversion.
A left side of float32 is not for this: it would have to be rounded, which nobody has asked for.

    pairs      two steps of the left side as one word: read by all parts of the columns
    product    for each block of columns, a tile of rows: of two steps the columns are read as they
               stand (packed: `product`), side by side, and put in turn, number by number, each
               vector of pairs out of two registers; then they meet the pairs of every row
    what was fused behind reads the sums                              `written_products`

A tile takes whole blocks of columns, so that two steps are one piece of memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import tvm_ffi
from tvm import s_tir, tirx
from tvm.ir.expr import TensorLoad

from .batched import statements_of
from .groupwise import GROUP_ATTR
from .groupwise_numbers import row_of, source_of
from .llvm_functions import dot_bfloat16, multiplying, with_functions
from .nests import INDEX, Nest, around, loop_over, nest_of, range_of
from .prefetch import ALL, DISTANCE, LINE, OUTER, ask
from .roles import LEFT, PRODUCT
from .statements import bound, load, loop, ramp, real, spread, store, tensor, whole
from .written_products import CYCLES, Sums, region_of, with_sums

if TYPE_CHECKING:
    from .facts import VectorUnit

    Expr = Any
    Read = Callable[[Expr, Expr, Expr], TensorLoad]

# Rows from which on arithmetic takes longer than the memory.
ROWS = 4
_MOST_ROWS = 8
# Registers for what two steps of a block are, beside the sums.
_SPARE = 6
# Numbers of 32 bits in a vector, the only ones that have the instruction.
LANES = 16
_BYTES = 2


@dataclass(frozen=True)
class _Product:
    """The product of a kernel: its extents, constants, and what it makes.

    `pairs` are [matrix, row, step / 2], as float32 by their bits. Behind the steps they are zero,
    for a vector at least: rows of many lengths would begin in the same set of the first cache.
    """

    matrices: int
    blocks: int
    rows: int
    block: int
    depth: int
    right: TensorLoad
    pairs: tirx.Var
    sums: tirx.Var
    tile: int

    def constants(self, o: Expr, k: Expr, i: Expr) -> list[Expr]:
        """The indices of a constant."""
        return [*[whole(0)] * (len(self.right.indices) - 3), o, k, i]


def in_pairs(func: tirx.PrimFunc, unit: VectorUnit) -> tirx.PrimFunc:
    """The kernel by pairs, to be scheduled by `written_products.schedule_parts`.

    Raises
    ------
    ValueError
        If it is no such product, or the unit has no instruction for it.
    """
    if not unit.dots or unit.lanes != LANES:
        raise ValueError("no instruction multiplies pairs of bfloat16")
    nests = [nest_of(statement) for statement in statements_of(func.body.block.body)]
    at = [i for i, nest in enumerate(nests) if nest.role == PRODUCT]
    if len(at) != 1 or GROUP_ATTR in nests[at[0]].block.annotations:
        raise ValueError("another family's kernel")
    nest, stages = nests[at[0]], [n for n in nests if n.role == LEFT]
    main, read = _product_of(nest, stages, unit)
    source = read(whole(0), whole(0), whole(0)).source
    if not any(source.same_as(param) for param in func.params):
        raise ValueError("TVM widens bfloat16 that a kernel has made itself")
    weights = main.blocks * main.block * main.depth * _BYTES
    waits = not unit.follows or main.rows > ROWS
    far = weights > unit.l2 // 2 and main.rows == main.tile and waits
    made = [_packing(main, read), _summing(main, nest.block.annotations, unit, far=far)]
    return with_sums(func, nests, at[0], Sums(main.sums, 1, main.block, made, [main.pairs]))


def _product_of(nest: Nest, stages: Sequence[Nest], unit: VectorUnit) -> tuple[_Product, Read]:
    """What the kernel multiplies, and how a value of its left side is read."""
    block = nest.block
    z, o, m, i, k = (int(v.dom.extent) for v in block.iter_vars)
    left, right = _sides(block)
    if m < ROWS or i % LANES or k % 2:
        raise ValueError(f"{m} rows, {i} columns, {k} steps: few, or no whole vectors of pairs")
    most = min(_MOST_ROWS, (unit.registers - _SPARE) // (i // LANES))
    tile = max(t for t in range(1, most + 1) if m % t == 0)
    stage = next((s for s in stages if s.block.writes[0].source.same_as(left.source)), None)

    def read(vz: Expr, vm: Expr, vk: Expr) -> TensorLoad:
        values = [vz, whole(0), vm, whole(0), vk]
        table = dict(zip([v.var for v in block.iter_vars], values, strict=True))
        node = tvm_ffi.structural_map(left, (tirx.Var, lambda var: table.get(var, var)))
        return node if stage is None else source_of(stage, node)

    pairs = tensor("pairs", [z, m, _padded(k) // 2])
    sums = tensor("sums", [z, o, m, i])
    return _Product(z, o, m, i, k, right, pairs, sums, tile), read


def _sides(block: s_tir.SBlock) -> tuple[TensorLoad, TensorLoad]:
    """What is multiplied: numbers of bfloat16 by constants that all matrices share.

    Raises
    ------
    ValueError
        If it is something else.
    """
    value = block.body.value
    if isinstance(value, tirx.Add) and isinstance(value.b, tirx.Mul):
        left, right = (side.value if isinstance(side, tirx.Cast) else side
                       for side in (value.b.a, value.b.b))  # fmt: skip
        if isinstance(left, TensorLoad) and isinstance(right, TensorLoad):
            _, o, _, i, k = (v.var for v in block.iter_vars)
            *others, block_of, step, column = right.indices
            packed = block_of.same_as(o) and step.same_as(k) and column.same_as(i)
            types = str(left.source.dtype), str(right.source.dtype)
            shared = all(isinstance(index, tirx.IntImm) for index in others)
            if packed and shared and types == ("bfloat16", "bfloat16"):
                return left, right
    raise ValueError(f"the block {block.name_hint} multiplies no packed constants of bfloat16")


def _padded(steps: int) -> int:
    return (-(-steps // (2 * LANES)) + 1) * 2 * LANES


def _nest(
    names: Sequence[str], extents: Sequence[int], block: Callable[[list[tirx.Var]], s_tir.SBlock]
) -> tirx.Stmt:
    """Loops around what ``block`` makes of its variables."""
    loops = [loop_over(tirx.Var(n, INDEX), e) for n, e in zip(names, extents, strict=True)]
    variables = [tirx.Var(f"v_{name}", INDEX) for name in names]
    return around(loops, [each.loop_var for each in loops], block(variables))


def _iters(variables: Sequence[tirx.Var], extents: Sequence[int]) -> list[tirx.IterVar]:
    pairs = zip(variables, extents, strict=True)
    return [tirx.IterVar(range_of(0, e), var, tirx.IterVar.DataPar) for var, e in pairs]


def _packing(main: _Product, read: Read) -> tirx.Stmt:
    """The nest that copies the left side, row by row; behind its end there are zeros."""
    extents = (main.matrices, main.rows)
    wide = _padded(main.depth)
    row = tensor("row", [wide], "uint16", "local")

    def block(variables: list[tirx.Var]) -> s_tir.SBlock:
        z, m = variables
        where = row_of(read, (z, m), (*extents, main.depth))
        source, first = where(whole(0))

        def value(j: Expr) -> tirx.Stmt:
            source, place = where(j)
            return store(row, [j], tirx.reinterpret("uint16", load(source, *place)))

        def zero(j: Expr) -> tirx.Stmt:
            return store(row, [j + main.depth], tirx.const(0, "uint16"))

        def pair(j: Expr) -> list[tirx.Stmt]:
            numbers = load(row, ramp(j * (2 * LANES), 2 * LANES))
            word = tirx.reinterpret(f"float32x{LANES}", numbers)
            return [store(main.pairs, [z, m, ramp(j * LANES, LANES)], word)]

        statements = [
            loop("j", main.depth, value),
            loop("j", wide - main.depth, zero),
            loop("j", wide // (2 * LANES), pair),
        ]
        place = [range_of(i, 1) for i in first[:-1]]
        return s_tir.SBlock(
            _iters(variables, extents),
            [tirx.BufferRegion(source, [*place, range_of(first[-1], main.depth)])],
            [region_of(main.pairs, [range_of(z, 1), range_of(m, 1), None])],
            "pairs",
            tirx.SeqStmt(statements),
            alloc_buffers=[row],
        )

    return _nest("zm", extents, block)


def _summing(
    main: _Product, annotations: dict[str, Any], unit: VectorUnit, *, far: bool
) -> tirx.Stmt:
    """The nest over blocks of columns, matrices and tiles of rows."""
    t, lanes = main.tile, range(0, main.block, LANES)
    extents = (main.blocks, main.matrices, main.rows // t)
    sums = [tensor(f"sums_{r}", [main.block], scope="local") for r in range(t)]
    cycles = main.depth // 2 * t * main.block // LANES
    caches = OUTER if unit.follows else ALL

    def block(variables: list[tirx.Var]) -> s_tir.SBlock:
        o, z, at = variables

        def each(value: Callable[[int, Expr], tirx.Stmt]) -> list[tirx.Stmt]:
            return [value(r, ramp(whole(v), LANES)) for v in lanes for r in range(t)]

        def step(j: Expr) -> list[tirx.Stmt]:
            asked = _asked(main, o, j, caches) if far else []
            return [*asked, *_step(main, [z, at * t], o, j, sums)]

        statements = [
            *each(lambda r, v: store(sums[r], [v], spread(real(0), LANES))),
            loop("j", main.depth // 2, step),
            *each(lambda r, v: store(main.sums, [z, o, at * t + r, v], load(sums[r], v))),
        ]
        rows = range_of(at * t, t)
        right = [range_of(0, 1)] * (len(main.right.indices) - 3)
        return s_tir.SBlock(
            _iters(variables, extents),
            [
                region_of(main.right.source, [*right, range_of(o, 1), None, None]),
                region_of(main.pairs, [range_of(z, 1), rows, None]),
            ],
            [region_of(main.sums, [range_of(z, 1), range_of(o, 1), rows, None])],
            "product",
            with_functions([multiplying(unit.dots)], statements),
            alloc_buffers=sums,
            annotations={**annotations, CYCLES: cycles},
        )

    return _nest(("part", "z", "tile"), extents, block)


def _asked(main: _Product, o: Expr, j: Expr, caches: int) -> list[tirx.Stmt]:
    """Ask for the constants of two steps that come later, line by line (`prefetch`).

    Where a prefetcher follows, four rows need not, and more ask into the outer caches (4096 x 4096
    on one Zen 4 core: 4 rows 1180 us, 1070 without; 8 rows 1880 without, 1680, into those 1520).
    """
    later = j * 2 + DISTANCE // (_BYTES * main.block)
    places = [divmod(at, main.block) for at in range(0, 2 * main.block, LINE // _BYTES)]
    lines = [main.constants(o, later + step, whole(column)) for step, column in places]
    return [ask(main.right.source, line, caches) for line in lines]


def _step(
    main: _Product, row: Sequence[Expr], o: Expr, j: Expr, sums: Sequence[tirx.Var]
) -> list[tirx.Stmt]:
    """What the ``j``-th two steps add to the sums of a tile."""
    z, m = row
    statements: list[tirx.Stmt] = []

    def named(name: str, value: Expr) -> tirx.Var:
        var, bind = bound(name, value)
        statements.append(bind)
        return var

    read = [_vector(main, o, j, at) for at in range(0, 2 * main.block, 2 * LANES)]
    stands = [named("steps", vector) for vector in read]
    starts = range(0, main.block, LANES)
    columns = [named("columns", _in_turn(stands, v, main.block)) for v in starts]
    # Row by row, so that one register is enough for the pairs.
    for r, total in enumerate(sums):
        pair = named("pair", spread(load(main.pairs, z, m + r, j), LANES))
        for v, column in zip(starts, columns, strict=True):
            here = ramp(whole(v), LANES)
            statements.append(store(total, [here], dot_bfloat16(load(total, here), pair, column)))
    return statements


def _vector(main: _Product, o: Expr, j: Expr, at: int) -> Expr:
    """So many numbers of two steps of a block, which stand side by side, from ``at`` on."""
    place = main.constants(o, j * 2 + at // main.block, ramp(whole(at % main.block), 2 * LANES))
    return tirx.reinterpret(f"uint16x{2 * LANES}", load(main.right.source, *place))


def _in_turn(stands: Sequence[Expr], v: int, block: int) -> Expr:
    """The columns from ``v`` on of both steps, number by number in turn."""
    first, second = divmod(v, 2 * LANES), divmod(block + v, 2 * LANES)
    order = [place for i in range(LANES) for place in (first[1] + i, 2 * LANES + second[1] + i)]
    both = tirx.Shuffle([stands[first[0]], stands[second[0]]], order)
    return tirx.reinterpret(f"float32x{LANES}", both)
