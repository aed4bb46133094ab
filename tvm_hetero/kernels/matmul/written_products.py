"""Products whose sums are computed by statements that are written out.

What a tile of such a product does no schedule can say (`quantized.integer_product`,
`product_pairs`). So the nest of the product, and the stages that its left side passes, give way to
nests that are written; what was fused behind reads their sums instead, which are grouped by parts
of a block of columns:

    sums[z, o * parts + i // width, m, i % width]      was      acc[z, o, m, i]

`with_sums` does that; `schedule_parts` shares the parts among cores and brings what was fused
behind to each tile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import tvm_ffi
from tvm import s_tir, tirx
from tvm.ir.expr import TensorLoad, TensorRegion
from tvm.sym import Analyzer

from tvm_hetero.kernels.matmul.gemm import WORTH_SHARING, join_epilogue, store_tile
from tvm_hetero.kernels.matmul.product_tiles import ProductTile
from tvm_hetero.kernels.tir.batched import with_root
from tvm_hetero.kernels.tir.block_roles import LEFT, PRODUCT, find_role
from tvm_hetero.kernels.tir.blocks import extent_of
from tvm_hetero.kernels.tir.nests import Nest, range_of, wrap_in_loops

if TYPE_CHECKING:
    from tvm_hetero.kernels.cpu.vector_unit import VectorUnit

    Expr = Any

# Annotation of a tile: about how many cycles it takes.
CYCLES = "tvm_hetero.cycles"


@dataclass(frozen=True)
class Sums:
    """Sums that take the place of a product's.

    Attributes
    ----------
    tensor
        Where they stand: [matrix, part of the columns, row, column].
    parts, width
        Of each block of columns; columns of a part.
    made
        The nests that compute them. The last one's block has the role of the product.
    buffers
        What these need besides.
    """

    tensor: tirx.Var
    parts: int
    width: int
    made: Sequence[tirx.Stmt]
    buffers: Sequence[tirx.Var]

    def at(self, indices: Sequence[Expr]) -> list[Expr]:
        """Where the sum stands that stood at these indices."""
        z, o, m, i = indices
        analyzer = Analyzer()
        part = analyzer.simplify(o * self.parts + i // self.width)
        return [z, part, m, analyzer.simplify(i % self.width)]


def with_sums(func: tirx.PrimFunc, nests: Sequence[Nest], at: int, sums: Sums) -> tirx.PrimFunc:
    """The kernel of some nests with other sums than its product's, the ``at``-th nest."""
    own = nests[at].block.writes[0].source
    gone = {own, *(nest.block.writes[0].source for nest in nests if nest.role == LEFT)}
    statements: list[tirx.Stmt] = []
    for i, nest in enumerate(nests):
        if i == at:
            statements += sums.made
        elif nest.role != LEFT:
            plain = wrap_in_loops(nest.loops, nest.values, nest.block)
            statements.append(_moved(plain, own, sums) if i > at else plain)
    buffers = [b for b in func.body.block.alloc_buffers if b not in gone]
    buffers += [*sums.buffers, sums.tensor]
    body = with_root(func.body, tirx.SeqStmt(statements), buffers)
    return tirx.PrimFunc(list(func.params), body, func.ret_type, func.attrs, func.span)


def schedule_parts(sch: s_tir.Schedule, unit: VectorUnit, cores: int) -> bool:
    """Schedule ``main``, which has `with_sums`, in place; False for any other.

    Raises
    ------
    ValueError
        If it cannot be.
    """
    acc = find_role(sch, PRODUCT)
    if acc is None:
        return False
    last = join_epilogue(sch, acc)
    part, z, at = sch.get_loops(acc)
    region = sch.get(acc).writes[0].region
    rows, width = int(region[2].extent), int(region[3].extent)
    if int(sch.get(last).iter_vars[-1].dom.extent) <= width and extent_of(sch, part) > 1:
        raise ValueError("whole parts of this product's only block are padding")  # see `gemm`
    tiles = extent_of(sch, part) * extent_of(sch, z) * extent_of(sch, at)
    if cores > 1 and tiles * int(sch.get(acc).annotations[CYCLES]) >= WORTH_SHARING:
        sch.parallel(part)
    store_tile(sch, last, at, ProductTile(width // unit.lanes, rows, 0.0), unit)
    return True


def region_of(buffer: tirx.Var, ranges: Sequence[Any]) -> TensorRegion:
    """A region of a buffer; None for all of a dimension."""
    extents = [int(e) for e in buffer.ty.shape]
    return tirx.BufferRegion(
        buffer, [range_of(0, e) if r is None else r for r, e in zip(ranges, extents, strict=True)]
    )


def _moved(statement: tirx.Stmt, own: tirx.Var, sums: Sums) -> tirx.Stmt:
    """A statement that reads the sums where they are now."""

    def read(node: TensorLoad) -> Expr:
        if not node.source.same_as(own):
            return node
        return tirx.BufferLoad(sums.tensor, sums.at(list(node.indices)))

    def region(node: TensorRegion) -> Expr:
        if not node.source.same_as(own):
            return node
        place = sums.at([r.min for r in node.region])
        return tirx.BufferRegion(sums.tensor, [range_of(i, 1) for i in place])

    return tvm_ffi.structural_map(statement, [(TensorLoad, read), (TensorRegion, region)])
