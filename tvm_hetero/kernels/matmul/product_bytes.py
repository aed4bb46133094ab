"""Products of bytes (`bytes_dense`): four steps of the reduction to an instruction.

bytes      rows of codes, filled up with zeros to whole words
product    for each block of columns, a tile of rows: a vector of words of weights is read once
           and meets the word of every row, spread over the lanes        `cpu.byte_dots`
what was fused behind reads the sums                                     `written_products`
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import tvm_ffi
from tvm import s_tir, tirx
from tvm.ir.expr import TensorLoad

from tvm_hetero.kernels.cpu.byte_dots import add_byte_products, byte_dot, load_codes
from tvm_hetero.kernels.matmul.written_products import CYCLES, Sums, region_of, with_sums
from tvm_hetero.kernels.tir.batched import statements_of
from tvm_hetero.kernels.tir.block_roles import BYTES_ATTR
from tvm_hetero.kernels.tir.left_side import locate_row, make_left_reader
from tvm_hetero.kernels.tir.nests import iterators, nest_of, nest_over, range_of
from tvm_hetero.kernels.tir.statements import (
    bind_value,
    broadcast,
    load,
    loop,
    ramp,
    store,
    tensor,
    whole,
)

if TYPE_CHECKING:
    from tvm_hetero.kernels.cpu.vector_unit import VectorUnit
    from tvm_hetero.kernels.tir.left_side import Read

    Expr = Any

_WORD = 4
_MOST_ROWS = 6
# Bytes behind a row: rows of many lengths would begin in the same set of the first cache.
_BEHIND = 64


@dataclass(frozen=True)
class BytesProduct:
    """The product of a kernel: rows, depth in words, weights, and what it makes.

    ``codes`` are ``[row, byte]``, ``sums`` ``[matrix, block, row, column]``.
    """

    rows: int
    steps: int
    words: tirx.Var
    codes: tirx.Var
    sums: tirx.Var
    tile: int

    @property
    def blocks(self) -> int:
        """Blocks of columns."""
        return int(self.words.ty.shape[0])

    @property
    def block(self) -> int:
        """Columns of a block."""
        return int(self.words.ty.shape[2])


def in_bytes(func: tirx.PrimFunc, unit: VectorUnit) -> tirx.PrimFunc:
    """The kernel by words, to be scheduled by `written_products.schedule_parts`.

    Raises
    ------
    ValueError
        If it is no such product.
    """
    nests = [nest_of(statement) for statement in statements_of(func.body.block.body)]
    at = [i for i, nest in enumerate(nests) if BYTES_ATTR in nest.block.annotations]
    if len(at) != 1:
        raise ValueError("another family's kernel")
    block = nests[at[0]].block
    z, o, m, i, k = (int(v.dom.extent) for v in block.iter_vars)
    if z != 1 or i % unit.lanes:
        raise ValueError(f"{z} matrices, blocks of {i} columns: expected one, in whole vectors")
    left, words = _sides(block)
    main = BytesProduct(
        m,
        -(-k // _WORD),
        words,
        tensor("bytes", [m, -(-k // _WORD) * _WORD + _BEHIND], "uint8"),
        tensor("sums", [1, o, m, i], "int32"),
        max(d for d in range(1, _MOST_ROWS + 1) if m % d == 0),
    )
    annotations = {key: v for key, v in block.annotations.items() if key != BYTES_ATTR}
    made = [
        _copy(main, k, make_left_reader(block, left, ())),
        _summing(main, annotations, unit),
    ]
    return with_sums(func, nests, at[0], Sums(main.sums, 1, i, made, [main.codes]))


def _sides(block: s_tir.SBlock) -> tuple[TensorLoad, tirx.Var]:
    """What reads the codes, and the words."""
    found: dict[str, TensorLoad] = {}

    def note(node: TensorLoad) -> None:
        if not node.source.same_as(block.writes[0].source):
            found[str(node.source.dtype)] = node

    tvm_ffi.structural_walk(block.body, (TensorLoad, note))
    if set(found) != {"uint8", "int32"}:
        raise ValueError(f"the block {block.name_hint} multiplies no bytes by words of bytes")
    return found["uint8"], found["int32"].source


def _copy(main: BytesProduct, depth: int, read: Read) -> tirx.Stmt:
    """The nest that copies the codes, row by row; behind their end there are zeros."""
    extents = (1, main.rows)
    wide = main.steps * _WORD

    def block(variables: list[tirx.Var]) -> s_tir.SBlock:
        z, m = variables
        where = locate_row(read, (z, m), (*extents, depth))
        source, first = where(whole(0))

        def value(j: Expr) -> tirx.Stmt:
            place = where(j)[1]
            return store(main.codes, [m, j], load(source, *place))

        def zero(j: Expr) -> tirx.Stmt:
            return store(main.codes, [m, j + depth], tirx.const(0, "uint8"))

        statements = [loop("j", depth, value)]
        statements += [loop("j", wide - depth, zero)] if wide > depth else []
        place = [range_of(i, 1) for i in first[:-1]]
        return s_tir.SBlock(
            iterators(variables, extents),
            [tirx.BufferRegion(source, [*place, range_of(first[-1], depth)])],
            [region_of(main.codes, [range_of(m, 1), None])],
            "bytes",
            tirx.SeqStmt(statements) if len(statements) > 1 else statements[0],
        )

    return nest_over("zm", extents, block)


def _summing(main: BytesProduct, annotations: dict[str, Any], unit: VectorUnit) -> tirx.Stmt:
    """The nest over blocks of columns and tiles of rows."""
    t, lanes = main.tile, unit.lanes
    extents = (main.blocks, 1, main.rows // t)
    dot, columns = byte_dot(unit, lanes), range(0, main.block, lanes)
    sums = [tensor(f"sums_{r}", [main.block], "int32", "local") for r in range(t)]
    cycles = main.steps * t * main.block // lanes // 2

    def block(variables: list[tirx.Var]) -> s_tir.SBlock:
        o, z, at = variables

        def step(j: Expr) -> list[tirx.Stmt]:
            bound = [bind_value("code", load_codes(main.codes, at * t + r, j)) for r in range(t)]
            made = [bind for _, bind in bound]
            for v in columns:
                here = ramp(whole(v), lanes)
                word, bind = bind_value("word", load(main.words, o, j, ramp(whole(v), lanes)))
                made.append(bind)
                for total, (code, _) in zip(sums, bound, strict=True):
                    spread = broadcast(code, lanes)
                    added = add_byte_products(load(total, here), spread, word, dot, lanes)
                    made.append(store(total, [here], added))
            return made

        zero, tiles = (
            broadcast(tirx.const(0, "int32"), lanes),
            [ramp(whole(v), lanes) for v in columns],
        )
        statements = [
            *(store(total, [v], zero) for total in sums for v in tiles),
            loop("j", main.steps, step),
            *(
                store(main.sums, [z, o, at * t + r, v], load(total, v))
                for r, total in enumerate(sums)
                for v in tiles
            ),
        ]
        rows = range_of(at * t, t)
        return s_tir.SBlock(
            iterators(variables, extents),
            [
                region_of(main.words, [range_of(o, 1), None, None]),
                region_of(main.codes, [rows, None]),
            ],
            [region_of(main.sums, [range_of(z, 1), range_of(o, 1), rows, None])],
            "product",
            tirx.SeqStmt(statements),
            alloc_buffers=sums,
            annotations={**annotations, CYCLES: cycles},
        )

    return nest_over(("part", "z", "tile"), extents, block)
