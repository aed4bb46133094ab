"""Products of bfloat16 with constants of bfloat16: what their rules share.

Such a product is found in a kernel (`find_product`), and the left side is put in pairs (`packing`):
rows of numbers side by side, as instructions that multiply two steps of the reduction at once read
them (`product_pairs`, `product_amx`). The constants stay as they are: blocks of columns, packed for
all targets alike (`product`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tvm import s_tir, tirx
from tvm.ir.expr import TensorLoad

from tvm_hetero.kernels.matmul.written_products import region_of
from tvm_hetero.kernels.tir.batched import statements_of
from tvm_hetero.kernels.tir.block_roles import GROUP_ATTR, LEFT, PRODUCT
from tvm_hetero.kernels.tir.left_side import locate_row, make_left_reader
from tvm_hetero.kernels.tir.nests import Nest, iterators, nest_of, nest_over, range_of
from tvm_hetero.kernels.tir.statements import load, loop, ramp, store, tensor, whole

if TYPE_CHECKING:
    Expr = Any
    Read = Callable[[Expr, Expr, Expr], TensorLoad]

# Numbers of 32 bits in a vector, the only ones that have the instructions.
LANES = 16
BYTES = 2


@dataclass(frozen=True)
class Bfloat16Product:
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

    @property
    def weights(self) -> int:
        """Bytes of the constants."""
        return self.blocks * self.block * self.depth * BYTES

    def constants(self, o: Expr, k: Expr, i: Expr) -> list[Expr]:
        """The indices of a constant."""
        return [*[whole(0)] * (len(self.right.indices) - 3), o, k, i]


@dataclass(frozen=True)
class FoundProduct:
    """A product in a kernel: the kernel's nests, which one it is, what it multiplies, and how a
    value of its left side is read.
    """

    nests: Sequence[Nest]
    at: int
    main: Bfloat16Product
    read: Read


def find_product(func: tirx.PrimFunc, least: int, tile: Callable[[int, int], int]) -> FoundProduct:
    """The product of numbers of bfloat16 and packed constants of bfloat16 in a kernel.

    Parameters
    ----------
    func
        The kernel.
    least
        Rows of the left side that it must have.
    tile
        How many of them go together, of the rows and of the columns of a block.

    Raises
    ------
    ValueError
        If there is none.
    """
    nests = [nest_of(statement) for statement in statements_of(func.body.block.body)]
    at = [i for i, nest in enumerate(nests) if nest.role == PRODUCT]
    if len(at) != 1 or GROUP_ATTR in nests[at[0]].block.annotations:
        raise ValueError("another family's kernel")
    nest, stages = nests[at[0]], [n for n in nests if n.role == LEFT]
    main, read = _product_of(nest, stages, least, tile)
    source = read(whole(0), whole(0), whole(0)).source
    if not any(source.same_as(param) for param in func.params):
        raise ValueError("TVM widens bfloat16 that a kernel has made itself")
    return FoundProduct(nests, at[0], main, read)


def largest_divisor(number: int, most: int) -> int:
    """The largest divisor of a number that is at most so large."""
    return max(d for d in range(1, most + 1) if number % d == 0)


def _product_of(
    nest: Nest, stages: Sequence[Nest], least: int, tile: Callable[[int, int], int]
) -> tuple[Bfloat16Product, Read]:
    """What the kernel multiplies, and how a value of its left side is read."""
    block = nest.block
    z, o, m, i, k = (int(v.dom.extent) for v in block.iter_vars)
    left, right = _sides(block)
    if m < least or i % LANES or k % 2:
        raise ValueError(f"{m} rows, {i} columns, {k} steps: few, or no whole vectors of pairs")
    pairs = tensor("pairs", [z, m, _padded(k) // 2])
    sums = tensor("sums", [z, o, m, i])
    product = Bfloat16Product(z, o, m, i, k, right, pairs, sums, tile(m, i))
    return product, make_left_reader(block, left, stages)


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


def packing(main: Bfloat16Product, read: Read) -> tirx.Stmt:
    """The nest that copies the left side, row by row; behind its end there are zeros."""
    extents = (main.matrices, main.rows)
    wide = _padded(main.depth)
    row = tensor("row", [wide], "uint16", "local")

    def block(variables: list[tirx.Var]) -> s_tir.SBlock:
        z, m = variables
        where = locate_row(read, (z, m), (*extents, main.depth))
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
            iterators(variables, extents),
            [tirx.BufferRegion(source, [*place, range_of(first[-1], main.depth)])],
            [region_of(main.pairs, [range_of(z, 1), range_of(m, 1), None])],
            "pairs",
            tirx.SeqStmt(statements),
            alloc_buffers=[row],
        )

    return nest_over("zm", extents, block)
