"""Products with weights of few bits (`product`) in integers: two codes to an instruction.

Rounded to 16 bits (`quantized.int16_operand`), the left side meets the codes as they are: two
numbers of a row times two codes of a column, added up in 32 bits, is one instruction (of x86 since
SSE2; with VNNI it also adds to the sum), and a code takes half an operation to be taken out of its
word instead of one and a half, and for each row half a multiplication instead of one. A sum over a
group of g is at most g 2^15 (2^bits + 2^(bits - 1)) on its way: exact in 32 bits for 128 codes of 8
bits.

    acc[m, n] += float(less[m, q] + sum of pairs[m, j] . codes[j, n]) * step[m, q] * scale[q, n]

Loop order: parts of a block of columns, matrices, tiles of rows, groups, words of a group; of a
tile of v vectors by t rows all sums are in registers. Codes are asked for ahead (`prefetch`) where
that does not take the place of loads (`kernels.cpu.vector_unit.VectorUnit.codes_ahead`), as on
Sapphire Rapids. What products of one token and of several take, `python -m
benchmarks.decode_kernels --kind product` prints.

`in_whole_numbers` writes the nests, and `quantized.tile` what a tile does; `written_products` puts
them into the kernel and schedules it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tvm import s_tir, tirx

from tvm_hetero.kernels.matmul.written_products import CYCLES, Sums, region_of, with_sums
from tvm_hetero.kernels.quantized.amx import sum_tiles
from tvm_hetero.kernels.quantized.int8_operand import code_tile, taking_apart
from tvm_hetero.kernels.quantized.int16_operand import round_left
from tvm_hetero.kernels.quantized.match import Groups, find_groups
from tvm_hetero.kernels.quantized.tile import WholeProduct, group_of, tile_of
from tvm_hetero.kernels.tir.nests import INDEX, loop_over, range_of, wrap_in_loops
from tvm_hetero.kernels.tir.statements import (
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


def in_whole_numbers(func: tirx.PrimFunc, unit: VectorUnit) -> tirx.PrimFunc:
    """The kernel in integers, to be scheduled by `written_products.schedule_parts`.

    By tile registers, where there are some and it has rows enough (`quantized.amx`).

    Raises
    ------
    ValueError
        If it is no product with weights in groups, or one that the unit has no instruction for.
    """
    if not unit.pairs:
        raise ValueError("no instruction multiplies pairs of 16 bits")
    found = find_groups(func, unit)
    try:
        sums = _by_tiles(found, unit)
    except ValueError:
        sums = _by_vectors(found, unit)
    return with_sums(func, found.nests, found.at, sums)


def _by_tiles(found: Groups, unit: VectorUnit) -> Sums:
    """The sums by tile registers."""
    if not unit.amx:
        raise ValueError("there are no tile registers")
    numbers = found.numbers
    sums = tensor("sums", [numbers.matrices, found.blocks, numbers.rows, found.block])
    tile = code_tile(numbers, found.codes, found.scales, sums, found.ahead)
    made = [round_left(numbers, found.read), taking_apart(tile), sum_tiles(tile, found.annotations)]
    buffers = [numbers.step, numbers.less, numbers.pairs, tile.plain, tile.signed]
    return Sums(sums, 1, found.block, made, buffers)


def _by_vectors(found: Groups, unit: VectorUnit) -> Sums:
    """The sums by instructions that multiply pairs."""
    numbers, tile = found.numbers, tile_of(found.block, found.numbers.rows, unit)
    width = tile.vectors * unit.lanes
    parts = found.block // width
    sums = tensor("sums", [numbers.matrices, found.blocks * parts, numbers.rows, width])
    main = WholeProduct(
        numbers, found.codes, found.scales, sums, found.block, tile, unit.pairs, found.ahead
    )
    made = [round_left(numbers, found.read), _product(main, found.blocks, found.annotations)]
    return Sums(sums, parts, width, made, [numbers.step, numbers.less, numbers.pairs])


def _product(main: WholeProduct, blocks: int, annotations: dict[str, Any]) -> tirx.Stmt:
    """The nest over parts of columns, matrices and tiles of rows."""
    numbers, t = main.numbers, main.tile.rows
    extents = (blocks * main.parts, numbers.matrices, numbers.rows // t)
    c, z, at = (tirx.Var(f"v_{name}", INDEX) for name in ("part", "z", "tile"))
    iters = [
        tirx.IterVar(range_of(0, extent), var, tirx.IterVar.DataPar)
        for extent, var in zip(extents, (c, z, at), strict=True)
    ]
    inside = [tensor(f"inside_{r}", [main.width], "int32", "local") for r in range(t)]
    over = [tensor(f"over_{r}", [main.width], "float32", "local") for r in range(t)]
    o, column = c // main.parts, c % main.parts * main.width
    lanes = range(0, main.width, numbers.lanes)

    def each(value: Callable[[int, int], tirx.Stmt]) -> list[tirx.Stmt]:
        return [value(r, v) for v in lanes for r in range(t)]

    def wide(v: int) -> Expr:
        return ramp(whole(v), numbers.lanes)

    begin = each(lambda r, v: store(over[r], [wide(v)], broadcast(real(0), numbers.lanes)))
    groups = loop(
        "q",
        numbers.groups,
        lambda q: group_of(main, [z, at * t], q, o, column, inside, over),
    )
    end = each(lambda r, v: store(main.sums, [z, c, at * t + r, wide(v)], load(over[r], wide(v))))
    rows = range_of(at * t, t)
    cycles = numbers.groups * numbers.group * t * main.tile.vectors // 2
    made = s_tir.SBlock(
        iters,
        [
            region_of(main.codes, [range_of(o, 1), None, range_of(column, main.width)]),
            region_of(main.scales, [range_of(o, 1), None, range_of(column, main.width)]),
            *(
                region_of(buffer, [range_of(z, 1), rows, None])
                for buffer in (numbers.step, numbers.less, numbers.pairs)
            ),
        ],
        [region_of(main.sums, [range_of(z, 1), range_of(c, 1), rows, None])],
        "product",
        tirx.SeqStmt([*begin, groups, *end]),
        alloc_buffers=[*inside, *over],
        annotations={**annotations, CYCLES: cycles},
    )
    names = ("part", "z", "tile")
    loops = [loop_over(tirx.Var(n, INDEX), e) for n, e in zip(names, extents, strict=True)]
    return wrap_in_loops(loops, [each.loop_var for each in loops], made)
