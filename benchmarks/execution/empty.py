"""Plans that do next to nothing, so that all of their time is the executor's.

There are two kinds of nothing. ``call``: a step that calls ``tvm_hetero.identity``, a C++ function
that returns its argument, as a step with a foreign function does. ``kernels``: a step with compiled
kernels that copy 16 numbers, as the segments of a model are.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np
import tvm
import tvm_ffi
from tvm import te

from tvm_hetero.executor import native
from tvm_hetero.platform.host import available_cores
from tvm_hetero.util.statistics import quantile

SHAPE = (16,)
KERNEL = "nothing"
Nothing = Literal["call", "kernels"]


@dataclass(frozen=True)
class Figure:
    """Microseconds of one thing, as `runner` does it on so many workers."""

    what: str
    runner: str
    workers: int
    best: float
    median: float
    p99: float


def figure(what: str, runner: str, workers: int, seconds: Iterable[float]) -> Figure:
    """A figure from the seconds of all runs."""
    us = sorted(1e6 * value for value in seconds)
    return Figure(what, runner, workers, us[0], statistics.median(us), quantile(us, 0.99))


def chain_plan(workers: Sequence[int], kind: Nothing, calls: int = 1) -> dict[str, Any]:
    """A chain of steps, one for each of `workers`, whose threads have a core each.

    `calls` is how many kernels each step has, all of them from its in to its out.
    """
    cores = sorted(available_cores())
    tensor = {"shape": list(SHAPE), "dtype": "float32"}
    return {
        "format": "tvm-hetero/plan/2",
        "batch": 1,
        "devices": [{"name": "cpu", "dl_type": 1, "dl_id": 0}],
        "workers": [
            {"name": f"w{i}", "device": 0, "cores": [cores[i % len(cores)]], "role": "compute"}
            for i in range(max(workers) + 1)
        ],
        "slots": [{"name": f"t{i}", "device": 0, **tensor} for i in range(len(workers) + 1)],
        "inputs": [{"name": "x", "slot": 0, **tensor}],
        "constants": [],
        "outputs": [{"name": "y", "slot": len(workers)}],
        "steps": [_step(i, worker, kind, calls) for i, worker in enumerate(workers)],
    }


def _step(i: int, worker: int, kind: Nothing, calls: int) -> dict[str, Any]:
    step = {"kind": kind, "name": f"s{i}", "worker": worker, "ins": [i], "outs": [i + 1]}
    if kind == "call":
        return step | {"function": KERNEL}
    view = {"shape": list(SHAPE), "dtype": "float32"}
    args = [{"in": 0, **view}, {"out": 0, **view}]
    call = {"kernel": KERNEL, "task": f"{i}.{KERNEL}", "args": args, "written": 1}
    return step | {"scratch": 0, "calls": [call] * calls}


def chain(workers: Sequence[int], kind: Nothing, calls: int = 1) -> native.NativeExecutor:
    """An executor of `chain_plan`, with its input set."""
    plan = chain_plan(workers, kind, calls)
    executor = native.create(plan)
    if kind == "call":
        executor.set_functions([identity()] * len(workers))
    else:
        for worker in sorted(set(workers)):
            executor.set_library(worker, library())
    executor.set_input("x", tensor())
    return executor


def tensor() -> Any:
    """What goes through the chains."""
    return tvm.runtime.tensor(np.zeros(SHAPE, "float32"))


def identity() -> Any:
    """The C++ function that returns its argument."""
    native.load_library()
    return tvm_ffi.get_global_func("tvm_hetero.identity")


def nothing() -> tvm.tirx.PrimFunc:
    """The kernel that copies its argument."""
    x = te.placeholder(SHAPE, "float32", name="x")
    func = te.create_prim_func([x, te.compute(SHAPE, lambda i: x[i], name="y")])
    return func.with_attr("global_symbol", KERNEL)


@cache
def library() -> Any:
    """The kernel, compiled."""
    target = tvm.target.Target({"kind": "llvm"})
    return tvm.tirx.build(tvm.IRModule({KERNEL: nothing()}), target)
