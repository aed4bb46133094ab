"""Plans that do next to nothing, so that all of their time is the executor's.

There are two kinds of nothing. ``call``: a step that calls ``tvm_hetero.identity``, a C++ function
that returns its argument, as a step with a foreign function does. ``kernels``: a step with compiled
kernels that copy 16 numbers, as the segments of a model are.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal

import numpy as np
import tvm
import tvm_ffi
from tvm import te

from tvm_hetero.executor import native
from tvm_hetero.plan.model import (
    ArgKind,
    ArgPlan,
    CallPlan,
    DevicePlan,
    InputPlan,
    OutputPlan,
    Plan,
    Role,
    SlotPlan,
    StepKind,
    StepPlan,
    TensorPlan,
    WorkerPlan,
)
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


def chain_plan(workers: Sequence[int], kind: Nothing, calls: int = 1) -> Plan:
    """A chain of steps, one for each of `workers`, whose threads have a core each.

    `calls` is how many kernels each step has, all of them from its in to its out.
    """
    cores = sorted(available_cores())
    tensor = TensorPlan(SHAPE, "float32")
    return Plan(
        1,
        devices=(DevicePlan("cpu", 1, 0),),
        workers=tuple(
            WorkerPlan(f"w{i}", 0, (cores[i % len(cores)],), Role.COMPUTE)
            for i in range(max(workers) + 1)
        ),
        slots=tuple(SlotPlan(f"t{i}", 0, tensor) for i in range(len(workers) + 1)),
        inputs=(InputPlan("x", 0, tensor),),
        constants=(),
        outputs=(OutputPlan("y", len(workers)),),
        steps=tuple(_step(i, worker, kind, calls) for i, worker in enumerate(workers)),
    )


def _step(i: int, worker: int, kind: Nothing, calls: int) -> StepPlan:
    step = StepPlan(StepKind(kind), f"s{i}", worker, (i,), (i + 1,))
    if kind == "call":
        return replace(step, function=KERNEL)
    tensor = TensorPlan(SHAPE, "float32")
    args = (ArgPlan(ArgKind.IN, 0, tensor), ArgPlan(ArgKind.OUT, 0, tensor))
    return replace(step, calls=(CallPlan(KERNEL, f"{i}.{KERNEL}", args, 1),) * calls)


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
