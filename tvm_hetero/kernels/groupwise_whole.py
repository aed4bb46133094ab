"""Products with weights of few bits in whole numbers (`groupwise`): two codes to an instruction.

Rounded to 16 bits (`groupwise_numbers`), the left side meets the codes as they are: two numbers of
a row times two codes of a column, added up in 32 bits, is one instruction (of x86 since SSE2; with
VNNI it also adds to the sum), and a code takes half an operation to be taken out of its word
instead of one and a half, and for each row half a multiplication instead of one. A sum over a
group of g is at most g 2^15 (2^bits + 2^(bits - 1)) on its way: exact in 32 bits for 128 codes of
8 bits.

    acc[m, n] += float(less[m, q] + sum of pairs[m, j] . codes[j, n]) * step[m, q] * scale[q, n]

Loop order: parts of a block of columns, matrices, tiles of rows, groups, words of a group; of a
tile of v vectors by t rows all sums are in registers. Codes are asked for ahead (`prefetch`) where
that does not take the place of loads (`facts.VectorUnit.codes_ahead`): on Sapphire Rapids one token
by 768 x 2304 of 4 bits took 84 us without and 71 with, two tokens 94 and 73.

`in_whole_numbers` writes the nests, and `groupwise_tile` what a tile does; `written_products` puts
them into the kernel and schedules it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import tvm_ffi
from tvm import s_tir, tirx
from tvm.ir.expr import TensorLoad

from .batched import statements_of
from .groupwise import GROUP_ATTR
from .groupwise_groups import factors
from .groupwise_numbers import WORD, numbers_of, rounding, source_of
from .groupwise_tile import WholeProduct, group_of, tile_of
from .nests import INDEX, Nest, around, loop_over, nest_of, range_of
from .roles import LEFT
from .statements import load, loop, ramp, real, spread, store, tensor, whole
from .written_products import CYCLES, Sums, region_of, with_sums

if TYPE_CHECKING:
    from .facts import VectorUnit

    Expr = Any

# Of sums of products of 16 and 8 bits.
_MOST_OF_A_GROUP = 128


def in_whole_numbers(func: tirx.PrimFunc, unit: VectorUnit) -> tirx.PrimFunc:
    """The kernel in whole numbers, to be scheduled by `written_products.schedule_parts`.

    Raises
    ------
    ValueError
        If it is no product with weights in groups, or one that the unit has no instruction for.
    """
    if not unit.pairs:
        raise ValueError("no instruction multiplies pairs of 16 bits")
    nests = [nest_of(statement) for statement in statements_of(func.body.block.body)]
    at = [i for i, nest in enumerate(nests) if GROUP_ATTR in nest.block.annotations]
    if len(at) != 1:
        raise ValueError("another family's kernel")
    product, stages = nests[at[0]], [n for n in nests if n.role == LEFT]
    main, made = _sums_of(product, stages, unit)
    numbers = main.numbers
    buffers = [numbers.step, numbers.less, numbers.pairs]
    return with_sums(func, nests, at[0], Sums(main.sums, main.parts, main.width, made, buffers))


def _sums_of(
    nest: Nest, stages: Sequence[Nest], unit: VectorUnit
) -> tuple[WholeProduct, list[tirx.Stmt]]:
    """The product, and the nests that compute it."""
    block = nest.block
    z, o, m, i, k = (int(v.dom.extent) for v in block.iter_vars)
    group = int(block.annotations[GROUP_ATTR])
    left, near, _, scale = factors(block)
    codes, scales = (_only(expr, dtype) for expr, dtype in ((near, "int32"), (scale, "bfloat16")))
    bits = WORD * int(codes.shape[1]) // k
    if group > _MOST_OF_A_GROUP or not isinstance(left, TensorLoad):
        raise ValueError("sums of a group may not fit, or the left side is no tensor")
    numbers = numbers_of(z, m, k // group, group, bits, unit.lanes)
    tile = tile_of(i, m, unit)
    width = tile.vectors * unit.lanes
    sums = tensor("sums", [z, o * (i // width), m, width])
    size = math.prod(int(e) for e in codes.shape) * WORD // 8
    ahead = unit.codes_ahead if size > unit.l2 // 2 else 0
    main = WholeProduct(numbers, codes, scales, sums, i, tile, unit.pairs, ahead)
    stage = next((s for s in stages if s.block.writes[0].source.same_as(left.source)), None)

    def read(*place: Expr) -> TensorLoad:
        vz, vm, vk = place
        values = [vz, whole(0), vm, whole(0), vk]
        table = dict(zip([v.var for v in block.iter_vars], values, strict=True))
        node = tvm_ffi.structural_map(left, (tirx.Var, lambda var: table.get(var, var)))
        return node if stage is None else source_of(stage, node)

    rest = {key: value for key, value in block.annotations.items() if key != GROUP_ATTR}
    return main, [rounding(numbers, read), _product(main, o, rest)]


def _only(expr: Expr, dtype: str) -> tirx.Var:
    """The one tensor of a type that an expression reads."""
    found: set[tirx.Var] = set()
    tvm_ffi.structural_walk(expr, (TensorLoad, lambda node: found.add(node.source)))
    (only,) = (tensor for tensor in found if str(tensor.dtype) == dtype)
    return only


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

    begin = each(lambda r, v: store(over[r], [wide(v)], spread(real(0), numbers.lanes)))
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
    return around(loops, [each.loop_var for each in loops], made)
