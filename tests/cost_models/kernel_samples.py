"""Small kernels for the tests of cost models: good ones, and some that do not behave."""

from __future__ import annotations

import os
from pathlib import Path

import tvm
from tvm import relax
from tvm.script import tirx as T

from tvm_hetero.cost_models import Kernel
from tvm_hetero.platform import Device, Platform

LLVM = {"kind": "llvm", "mcpu": "x86-64-v2"}
# Limits (s) after which a kernel hangs, tried in turn where one does: on a machine with much other
# work a good one takes longer than the first.
PATIENCE = (1.5, 6.0, 24.0)


def here(count: int = 1) -> Platform:
    """CPU devices cpu0, cpu1, ... of plain targets, each on one core that this process may use."""
    cores = sorted(os.sched_getaffinity(0))
    return Platform(
        devices=tuple(
            Device(f"cpu{i}", target=LLVM, cores=(cores[i % len(cores)],)) for i in range(count)
        )
    )


def elementwise(name: str, size: int = 256, times: int = 1) -> Kernel:
    """A kernel that doubles `size` numbers `times` times (kernels of equal arguments are equal)."""
    x = relax.Var("x", relax.TensorType((size,), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        value = x
        for _ in range(times):
            value = builder.emit(relax.op.add(value, value))
        builder.emit_func_output(value)
    module = tvm.transform.Sequential(
        [
            relax.transform.LegalizeOps(),
            relax.transform.AnnotateTIROpPattern(),
            relax.transform.FuseOps(),
            relax.transform.FuseTIR(),
        ]
    )(builder.get())
    funcs = [f for f in module.functions.values() if isinstance(f, tvm.tirx.PrimFunc)]
    return Kernel(name, max(funcs, key=lambda f: len(f.script())), times * size, 8.0 * size)


def _calls(symbol: str, *args: int) -> tvm.tirx.PrimFunc:
    """A kernel that calls a function of the C library."""

    @T.prim_func(s_tir=True)
    def func(a: T.Buffer((4,), "float32"), b: T.Buffer((4,), "float32")) -> None:
        T.func_attr({"tirx.noalias": True})
        T.evaluate(T.call_extern("int32", symbol, *args))
        for i in range(4):
            with T.sblock("copy"):
                v = T.axis.spatial(4, i)
                b[v] = a[v]

    return func


def sleeping(name: str = "sleeps", microseconds: int = 0) -> Kernel:
    """A kernel that copies four numbers, after a nap.

    Without one where it takes no time: beside others a sleep of nothing gives the core away for
    longer than one of milliseconds takes.
    """
    return Kernel(name, _calls("usleep", microseconds) if microseconds else _calls("abs", 0))


def scaling(name: str = "scales", factor: float = 2.0) -> Kernel:
    """A kernel that multiplies four numbers, where the others of this file copy them."""

    @T.prim_func(s_tir=True)
    def func(a: T.Buffer((4,), "float32"), b: T.Buffer((4,), "float32")) -> None:
        T.func_attr({"tirx.noalias": True})
        for i in range(4):
            with T.sblock("scale"):
                v = T.axis.spatial(4, i)
                b[v] = a[v] * T.float32(factor)

    return Kernel(name, func)


def aborting(name: str = "aborts") -> Kernel:
    """A kernel that aborts its process."""
    return Kernel(name, _calls("abort"))


def segfaulting(name: str = "crashes") -> Kernel:
    """A kernel whose process dies as if it had touched memory that is not its own."""
    return Kernel(name, _calls("raise", 11))


def illegal(name: str = "illegal") -> Kernel:
    """A kernel whose process dies as if the CPU lacked one of its instructions."""
    return Kernel(name, _calls("raise", 4))


def hanging(name: str = "hangs") -> Kernel:
    """A kernel that never ends (it sleeps, to spare the machine)."""
    return Kernel(name, _calls("pause"))


def unbuildable(name: str = "broken") -> Kernel:
    """A kernel that no CPU can have: it asks for the threads of a GPU."""

    @T.prim_func(s_tir=True)
    def func(a: T.Buffer((4,), "float32"), b: T.Buffer((4,), "float32")) -> None:
        for i in T.thread_binding(4, thread="threadIdx.x"):
            with T.sblock("copy"):
                v = T.axis.spatial(4, i)
                b[v] = a[v]

    return Kernel(name, func)


def as_it_is(func: tvm.tirx.PrimFunc, target: tvm.target.Target) -> tvm.tirx.PrimFunc:
    """A schedule that changes nothing."""
    return func


def python_path() -> dict[str, str]:
    """The environment of a child Python that finds this package and these tests."""
    root = str(Path(__file__).parent.parent.parent)
    return {**os.environ, "PYTHONPATH": root}
