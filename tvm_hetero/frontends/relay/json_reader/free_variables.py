"""The variables that an expression reads and does not bind, in the order of their first use."""

from __future__ import annotations

from tvm_hetero.frontends.relay.core.program import (
    Expr,
    Function,
    Let,
    ProgramItem,
    RelayCall,
    Tuple,
    Var,
)


def children(expr: Expr) -> list[Expr]:
    """The expressions directly within one."""
    if isinstance(expr, RelayCall):
        return [expr.callee, *expr.args]
    if isinstance(expr, Tuple):
        return list(expr.fields)
    if isinstance(expr, ProgramItem):
        return [expr.tuple]
    if isinstance(expr, Let):
        return [expr.value, expr.body]
    return [expr.body] if isinstance(expr, Function) else []


def expressions(root: Expr) -> list[Expr]:
    """Every expression under `root`, once, in the order of a program that is read."""
    seen, found, stack = set(), [], [root]
    while stack:
        expr = stack.pop()
        if id(expr) in seen:
            continue
        seen.add(id(expr))
        found.append(expr)
        stack.extend(reversed(children(expr)))
    return found


def free_variables(root: Expr) -> list[Var]:
    """The free variables of an expression. (Each variable of Relay is bound in one place.)"""
    everything = expressions(root)
    bound = {id(e.var) for e in everything if isinstance(e, Let)}
    for function in (e for e in everything if isinstance(e, Function)):
        bound |= {id(param) for param in function.params}
    return [e for e in everything if isinstance(e, Var) and id(e) not in bound]
