"""The left side of a product, read by whoever rewrites the product.

A kernel may copy its left side first (the stage ``left`` of `product`). Who replaces the product
replaces that copy too, so values are read where the copy has them from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tvm_ffi
from tvm import s_tir, tirx
from tvm.ir.expr import TensorLoad
from tvm.sym import Analyzer

from tvm_hetero.kernels.tir.blocks import uses
from tvm_hetero.kernels.tir.nests import INDEX, Nest, range_of
from tvm_hetero.kernels.tir.statements import whole

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Expr = Any
    Read = Callable[[Expr, Expr, Expr], TensorLoad]


def make_left_reader(block: s_tir.SBlock, left: TensorLoad, stages: Sequence[Nest]) -> Read:
    """What reads the left side's value of a matrix, a row and a step.

    Parameters
    ----------
    block
        The product's, over matrices, blocks of columns, rows, columns and steps.
    left
        What it reads.
    stages
        The kernel's copies of left sides.

    Raises
    ------
    ValueError
        By what is returned: if ``left`` is from a stage that does more than copy.
    """
    stage = next((s for s in stages if s.block.writes[0].source.same_as(left.source)), None)

    def read(z: Expr, m: Expr, k: Expr) -> TensorLoad:
        values = [z, whole(0), m, whole(0), k]
        table = dict(zip([v.var for v in block.iter_vars], values, strict=True))
        node = tvm_ffi.structural_map(left, (tirx.Var, lambda var: table.get(var, var)))
        return node if stage is None else _read_through(stage, node)

    return read


def locate_row(
    left: Read, row: tuple[Expr, Expr], extents: Sequence[int]
) -> Callable[[Expr], tuple[tirx.Var, list[Expr]]]:
    """Where the value of a step of a row stands: the tensor, and its indices.

    Parameters
    ----------
    left
        Reads the value of a matrix, a row and a step.
    row
        The matrix and the row.
    extents
        Of matrices, rows and steps.

    Raises
    ------
    ValueError
        If the values of a row do not stand side by side.
    """
    k, analyzer = tirx.Var("k", INDEX), Analyzer()
    for var, extent in zip((*row, k), extents, strict=True):
        analyzer.bind(var, range_of(0, extent))
    node = left(*row, k)
    *others, last = [analyzer.simplify(i) for i in node.indices]
    rest = analyzer.simplify(last - k)
    if any(uses(expr, k) for expr in (*others, rest)):
        raise ValueError("the values of a row do not stand side by side")
    return lambda at: (node.source, [*others, rest + at])


def _read_through(copy: Nest, load_of_stage: TensorLoad) -> TensorLoad:
    """What a stage that only copies has where a load reads it.

    Raises
    ------
    ValueError
        If it does more than that.
    """
    body = copy.block.body
    if not isinstance(body, tirx.BufferStore) or not isinstance(body.value, TensorLoad):
        raise ValueError(f"{copy.block.name_hint} is no copy")
    table = {
        index: value
        for index, value in zip(body.indices, load_of_stage.indices, strict=True)
        if isinstance(index, tirx.Var)
    }
    return tvm_ffi.structural_map(body.value, (tirx.Var, lambda var: table.get(var, var)))
