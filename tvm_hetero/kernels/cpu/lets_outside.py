"""Values that are bound within a product, bound around it: for TVM's vectorizer.

It meets the operands of a product that is one value for all lanes twice, and refuses to bind a
variable again (Let): ``exp(x[i]) * c``, read by the lanes of an axis that `x` does not have. Here

    (let v = a in f(v)) * b    becomes    let v = a in f(v) * b

and so for the other arithmetic, since such a sum may stand within a product. Each variable is bound
once in a kernel (`tvm_hetero.kernels.tir.vector_math`), so no other `v` is taken for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.ir.prim.expr import Add, Div, Max, Min, Mul, Sub

if TYPE_CHECKING:
    Expr = Any

_BINARY = (Add, Sub, Mul, Div, Max, Min)


def bind_outside(mod: tvm.IRModule) -> tvm.IRModule:
    """The kernels with the bindings within their arithmetic around it."""
    moved = tvm.IRModule({}, attrs=mod.attrs, global_infos=mod.global_infos)
    for gv, func in mod.functions_items():
        is_kernel = isinstance(func, tirx.PrimFunc)
        moved[gv] = func.with_body(_outside(func.body)) if is_kernel else func
    return moved


def _outside(body: tirx.Stmt) -> tirx.Stmt:
    return tvm_ffi.structural_map(body, (_BINARY, _around), order="post")


def _around(expr: Expr) -> Expr:
    """An operation with the bindings of its operands around it."""
    bound: list[tuple[tirx.Var, Expr]] = []
    operands = []
    for operand in (expr.a, expr.b):
        while isinstance(operand, tirx.Let):
            bound.append((operand.var, operand.value))
            operand = operand.body
        operands.append(operand)
    if not bound:
        return expr
    made = type(expr)(*operands)
    for var, value in reversed(bound):
        made = tirx.Let(var, value, made)
    return made
