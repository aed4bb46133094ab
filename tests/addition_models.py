"""Modules whose kernels add two vectors, written as what they compute."""

from __future__ import annotations

from collections.abc import Callable

import tvm
from tvm import relax
from tvm.script import tirx as T

Add = Callable[[relax.Expr, relax.Expr], relax.Expr]


@T.prim_func(private=True, s_tir=True)
def add(
    a: T.Buffer((16,), "float32"), b: T.Buffer((16,), "float32"), c: T.Buffer((16,), "float32")
):
    for i in range(16):
        with T.sblock("c"):
            vi = T.axis.remap("S", [i])
            c[vi] = a[vi] + b[vi]


def sums(body: Callable[[Add, relax.Expr, relax.Expr], relax.Expr]) -> tvm.IRModule:
    """A module of calls of `add`.

    Parameters
    ----------
    body
        Gets a function that calls the kernel, and the module's inputs x (16,) and k (16,), a view
        of (4, 4); gives what the module gives.
    """
    builder = relax.BlockBuilder()
    kernel = builder.add_func(add, "add")
    vector = relax.TensorType((16,), "float32")
    x, k = relax.Var("x", vector), relax.Var("k", relax.TensorType((4, 4), "float32"))

    def call(a: relax.Expr, b: relax.Expr) -> relax.Expr:
        return builder.emit(relax.call_tir(kernel, [a, b], vector))

    with builder.function("main", [x, k]):
        with builder.dataflow():
            flat = builder.emit(relax.op.reshape(k, (16,)))
            out = builder.emit_output(body(call, x, flat))
        builder.emit_func_output(out)
    return builder.get()
