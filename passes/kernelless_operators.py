"""Operators of which no kernel can be made, by name.

TVM's legalisation of an operator says no by a check of its own that fails ("only support float32
and float16 for now"), somewhere within a pass over the whole network, and names no operator.  So
each operator is lowered alone until one fails again.
"""

from __future__ import annotations

from typing import NoReturn

import tvm
from tvm import relax

from tvm_hetero.errors import ModelError
from tvm_hetero.passes.lowered_main import bindings
from tvm_hetero.util.untrusted_names import printable


def refuse_kernelless(mod: tvm.IRModule, error: Exception) -> NoReturn:
    """Name the operator of a module for which the lowering of all has failed.

    Raises
    ------
    ModelError
        Names it and its operands.  What fails together with others alone goes on as it is.
    """
    for _, call in bindings(mod["main"]):
        if isinstance(call, relax.Call) and isinstance(call.op, tvm.ir.Op):
            alone = _failure_alone(call)
            if alone is not None:
                raise kernelless(call, alone) from error
    raise error


def kernelless(call: relax.Call, error: Exception) -> ModelError:
    """The refusal of a call of which no kernel can be made, with why not."""
    types = ", ".join(printable(arg.ty, 60) for arg in call.args)
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return ModelError(
        f"there is no kernel for {str(call.op.name).removeprefix('relax.')} of ({types}): "
        f"{printable(lines[-1], 200)}. Put other operators in the place of it, or another type "
        "(float32 has the most kernels)"
    )


def _failure_alone(call: relax.Call) -> Exception | None:
    """What its lowering alone raises, None where it succeeds."""
    builder = relax.BlockBuilder()
    free = list(dict.fromkeys(relax.analysis.free_vars(call)))
    inputs = [relax.Var(f"x{i}", var.ty) for i, var in enumerate(free)]
    names = dict(zip(free, inputs, strict=True))
    args = [_renamed(arg, names) for arg in call.args]
    with builder.function("main", inputs):
        again = relax.Call(call.op, args, call.attrs, call.ty_args)
        builder.emit_func_output(builder.emit(again))
    try:
        relax.transform.LegalizeOps()(builder.get())
    except (RuntimeError, TypeError, ValueError) as error:
        return error
    return None


def _renamed(arg: relax.Expr, names: dict[relax.Var, relax.Var]) -> relax.Expr:
    if isinstance(arg, relax.Var):
        return names[arg]
    if isinstance(arg, relax.Tuple):
        return relax.Tuple([_renamed(field, names) for field in arg.fields])
    return arg
