"""A product of one row as one of several rows: its left side becomes a stage.

The rows of a batch's elements lie apart. The stage ``left`` (see `product`) copies them together,
the values of each step of the reduction side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import tvm_ffi
from tvm import s_tir, tirx
from tvm.ir.expr import TensorLoad, TensorRegion

from tvm_hetero.kernels.tir.block_roles import LEFT, PRODUCT, role
from tvm_hetero.kernels.tir.nests import INDEX, Nest, loop_over, point, range_of, tensor_like

if TYPE_CHECKING:
    Expr = Any

# Where the rows are: of accumulators [matrix, block of columns, row, column], and of the stage
# `left`, [matrix, step, row].
ROW = 2


def with_left(nests: Sequence[Nest], constants: set[tirx.Var]) -> tuple[list[Nest], tirx.Var]:
    """A product of one row with the stage that copies its left side, and that stage's tensor."""
    at = next(i for i, nest in enumerate(nests) if nest.role == PRODUCT)
    block = nests[at].block
    reads = [r for r in block.reads if r.source not in constants]
    own = block.writes[0]
    (read,) = (r for r in reads if not r.source.same_as(own.source))
    (k,) = (v for v in block.iter_vars if v.iter_type == tirx.IterVar.CommReduce)
    left = tensor_like([1, int(k.dom.extent), 1], read.source, "left")
    place = [tirx.const(0, INDEX), k.var, own.region[ROW].min]

    def load(node: TensorLoad) -> Expr:
        return tirx.BufferLoad(left, place) if node.source.same_as(read.source) else node

    product = s_tir.SBlock(
        block.iter_vars,
        [point(left, place) if r.same_as(read) else r for r in block.reads],
        block.writes,
        block.name_hint,
        tvm_ffi.structural_map(block.body, (TensorLoad, load)),
        block.init,
        annotations=block.annotations,
    )
    changed = Nest(nests[at].loops, nests[at].values, product)
    copy = _copy_of(read, left, k)
    return [*nests[:at], copy, changed, *nests[at + 1 :]], left


def _copy_of(read: TensorRegion, left: tirx.Var, k: tirx.IterVar) -> Nest:
    """The stage ``left`` of a product of one row: a copy of what the product reads."""
    extents = [int(e) for e in left.ty.shape]
    loops = [tirx.Var(name, INDEX) for name in "zkm"]
    iters = [tirx.Var(f"v_{name}", INDEX) for name in "zkm"]
    source = tirx.IndexMap([k.var], [r.min for r in read.region], None).map_indices([iters[1]])
    ranges = zip(extents, iters, strict=True)
    block = s_tir.SBlock(
        [tirx.IterVar(range_of(0, e), v, tirx.IterVar.DataPar) for e, v in ranges],
        [point(read.source, list(source))],
        [point(left, iters)],
        "left",
        tirx.BufferStore(left, tirx.BufferLoad(read.source, list(source)), iters),
        annotations=role(LEFT),
    )
    return Nest([loop_over(v, e) for v, e in zip(loops, extents, strict=True)], loops, block)
