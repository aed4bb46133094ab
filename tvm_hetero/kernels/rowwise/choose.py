"""The kernel that hands on one of two tensors: what is behind both branches of an ``If``.

It is fused with nothing, so that what only one branch needs stays in kernels of its own
(`tvm_hetero.passes.conditional_branches`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tvm import relax, te, tirx

from tvm_hetero.kernels.tir.kernel_attr import KERNEL_ATTR, kernel_parameters

if TYPE_CHECKING:
    from collections.abc import Sequence

CHOOSE = "choose"
_OPAQUE = 8


def choose(
    builder: relax.BlockBuilder,
    condition: relax.Expr,
    then: relax.Expr,
    other: relax.Expr,
    names: Sequence[str] = (),
) -> relax.Call:
    """Call the kernel.

    Parameters
    ----------
    builder
        Of the function that calls it.
    condition
        A scalar, bool.
    then, other
        Tensors of one type; the first is handed on where the condition holds.
    names
        By which the user of a model knows the condition.
    """
    shape = [int(d) for d in then.ty.shape.values]
    kernel = builder.add_func(_kernel(shape, str(then.ty.dtype), names), CHOOSE)
    return relax.call_tir(kernel, [condition, then, other], relax.TensorType(shape, then.ty.dtype))


def is_choice(func: tirx.PrimFunc) -> bool:
    """Whether a kernel is this one."""
    return kernel_parameters(func, CHOOSE) is not None


def choice_names(func: tirx.PrimFunc) -> tuple[str, ...]:
    """The names of a choice's condition, as `choose` was given them."""
    parameters = kernel_parameters(func, CHOOSE) or {}
    return tuple(str(name) for name in parameters.get("names", ()))


def _kernel(shape: Sequence[int], dtype: str, names: Sequence[str]) -> tirx.PrimFunc:
    condition = te.placeholder([], "bool", "condition")
    then, other = (te.placeholder(shape, dtype, name) for name in ("then", "other"))
    chosen = te.compute(
        shape, lambda *at: tirx.if_then_else(condition(), then(*at), other(*at)), CHOOSE
    )
    own: dict[str, Any] = {"name": CHOOSE, **({"names": list(names)} if names else {})}
    attrs = {"op_pattern": _OPAQUE, "tirx.noalias": True, KERNEL_ATTR: own}
    kernel = te.create_prim_func([condition, then, other, chosen]).without_attr("global_symbol")
    return kernel.with_attrs(attrs)
