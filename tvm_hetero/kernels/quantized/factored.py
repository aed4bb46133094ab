"""What the codes of a group share, taken out of the sum over the group.

A product with weights of few bits (`quantized.product`) is written as one sum,

    acc[m, n] += left[m, k] * ((near[k, n] - middle[k]) * scale[k / group, n])        over k

with a subtraction and a multiplication for each code. `factor_groups` makes three of it, before any
schedule, over the steps j of a group and over groups q:

    share[m, q] += left[m, q group + j] * middle[q group + j]
    partial[m, n, q] += left[m, q group + j] * near[q group + j, n]
    acc[m, n] += (partial[m, n, q] - share[m, q]) * scale[q, n]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import tvm_ffi
from tvm import s_tir, tirx
from tvm.ir.expr import TensorLoad
from tvm.sym import Analyzer

from tvm_hetero.kernels.tir.batched import statements_of, with_root
from tvm_hetero.kernels.tir.block_roles import GROUP_ATTR, PARTIAL, SHARE, role
from tvm_hetero.kernels.tir.nests import (
    INDEX,
    loop_over,
    nest_of,
    point,
    range_of,
    tensor_like,
    wrap_in_loops,
)

if TYPE_CHECKING:
    Expr = Any

_SPATIAL, _REDUCED = tirx.IterVar.DataPar, tirx.IterVar.CommReduce


def factor_groups(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """The kernel as three sums.

    Raises
    ------
    ValueError
        If it is no product with weights in groups.
    """
    root = func.body.block
    statements: list[tirx.Stmt] = []
    buffers = list(root.alloc_buffers)
    for statement in statements_of(root.body):
        nest = nest_of(statement)
        if GROUP_ATTR in nest.block.annotations:
            sums, between = _three_sums(nest.block)
            statements += sums
            buffers += between
        else:
            statements.append(statement)
    if len(buffers) != len(root.alloc_buffers) + 2:
        raise ValueError("another family's kernel")
    body = with_root(func.body, tirx.SeqStmt(statements), buffers)
    return tirx.PrimFunc(list(func.params), body, func.ret_type, func.attrs, func.span)


def _three_sums(block: s_tir.SBlock) -> tuple[list[tirx.Stmt], list[tirx.Var]]:
    """The sums, and the buffers of those within groups."""
    *spatial, k = block.iter_vars
    group = int(block.annotations[GROUP_ATTR])
    groups = int(k.dom.extent) // group
    left, near, middle, scale = factors(block)
    z, o, m, i = (int(v.dom.extent) for v in spatial)
    own = block.writes[0].source
    share = tensor_like([z, m, groups], own, "share")
    partial = tensor_like([z, o, m, i, groups], own, "partial")
    old = [v.var for v in block.iter_vars]
    zero = tirx.const(0, INDEX)

    def alone(new: list[Expr]) -> Expr:
        vz, vm, q, j = new
        values = [vz, zero, vm, zero, q * group + j]
        return _renamed(left * middle, old, values, new, [z, m, groups, group])

    def within(new: list[Expr]) -> Expr:
        *place, q, j = new
        values = [*place, q * group + j]
        return _renamed(left * near, old, values, new, [z, o, m, i, groups, group])

    def over(new: list[Expr]) -> Expr:
        vz, vo, vm, vi, q = new
        values = [vz, vo, vm, vi, q * group]
        inside = tirx.BufferLoad(partial, new) - tirx.BufferLoad(share, [vz, vm, q])
        return inside * _renamed(scale, old, values, new, [z, o, m, i, groups])

    rest = {k: v for k, v in block.annotations.items() if k != GROUP_ATTR}
    name = str(block.name_hint)
    sums = [
        _sum(f"{name}_share", share, "zmqj", [z, m, groups, group], alone, role(SHARE)),
        _sum(f"{name}_partial", partial, "zomiqj", [z, o, m, i, groups, group], within,
             role(PARTIAL)),
        _sum(name, own, "zomiq", [z, o, m, i, groups], over, rest),
    ]  # fmt: skip
    return sums, [share, partial]


def factors(block: s_tir.SBlock) -> tuple[Expr, Expr, Expr, Expr]:
    """The left side, the float of a code, that of a code of zero, and the scale."""
    value = block.body.value
    if isinstance(value, tirx.Add) and isinstance(value.b, tirx.Mul):
        left, right = value.b.a, value.b.b
        if isinstance(right, tirx.Mul) and isinstance(right.a, tirx.Sub):
            return left, right.a.a, right.a.b, right.b
    raise ValueError(f"the block {block.name_hint} does not sum left * ((near - middle) * scale)")


def _renamed(
    expr: Expr, old: Sequence[tirx.Var], values: Sequence[Expr], new: Sequence[tirx.Var],
    extents: Sequence[int],
) -> Expr:  # fmt: skip
    """The expression at other values of a block's variables, its indices simplified."""
    analyzer = Analyzer()
    for var, extent in zip(new, extents, strict=True):
        analyzer.bind(var, range_of(0, extent))
    table = dict(zip(old, values, strict=True))

    def variable(var: tirx.Var) -> Expr:
        return table.get(var, var)

    def load(node: TensorLoad) -> Expr:
        return tirx.BufferLoad(node.source, [analyzer.simplify(i) for i in node.indices])

    renamed = tvm_ffi.structural_map(expr, (tirx.Var, variable))
    return tvm_ffi.structural_map(renamed, (TensorLoad, load))


def _sum(
    name: str,
    buffer: tirx.Var,
    names: str,
    extents: Sequence[int],
    summand: Callable[[list[Expr]], Expr],
    annotations: Mapping[str, Any],
) -> tirx.Stmt:
    """A nest that sums over the last of its variables; the others are the place of the sum."""
    variables = [tirx.Var(f"v_{n}", INDEX) for n in names]
    place = variables[:-1]
    kinds = [*(_SPATIAL for _ in place), _REDUCED]
    iters = [
        tirx.IterVar(range_of(0, extent), var, kind)
        for var, extent, kind in zip(variables, extents, kinds, strict=True)
    ]
    value = summand(variables)
    zero = tirx.const(0, str(buffer.dtype))
    block = s_tir.SBlock(
        iters,
        _read(value),
        [point(buffer, place)],
        name,
        tirx.BufferStore(buffer, tirx.BufferLoad(buffer, place) + value, place),
        tirx.BufferStore(buffer, zero, place),
        annotations=dict(annotations),
    )
    loops = [
        loop_over(tirx.Var(n, INDEX), extent) for n, extent in zip(names, extents, strict=True)
    ]
    return wrap_in_loops(loops, [loop.loop_var for loop in loops], block)


def _read(value: Expr) -> list[Any]:
    """The regions that an expression reads, each once."""
    found: dict[tirx.Var, Any] = {}

    def visit(node: TensorLoad) -> None:
        found.setdefault(node.source, point(node.source, list(node.indices)))

    tvm_ffi.structural_walk(value, (TensorLoad, visit))
    return list(found.values())
