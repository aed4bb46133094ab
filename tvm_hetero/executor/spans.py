"""What ran when: a plan's steps and kernels with the times that the executor took."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tvm_hetero.plan.element_names import split_task
from tvm_hetero.plan.model import Plan, StepKind
from tvm_hetero.problem.model import Problem


@dataclass(frozen=True)
class TracedStep:
    """One step of a run: seconds since the run began, NaN where it was skipped.

    Attributes
    ----------
    name : its tasks, each once, or what is copied; device : of its worker.
    run_by : the worker that ran it: its own, or one that is alike and had nothing else to do.
    kind : the op of the task that takes most of its time, or "copy".
    tasks : ids of its tasks in the order of its kernels, and `elements`, those of the batch: one
        each, so a kernel for several elements is there for each of them.
    calls : the same by kernels: of which task each is, and how many elements it computes.
    waited : seconds for which whoever ran it did nothing else before, since it was not ready.
    """

    name: str
    device: str
    start: float
    end: float
    kind: str
    tasks: tuple[str, ...]
    elements: tuple[int, ...] = ()
    calls: tuple[tuple[str, int], ...] = ()
    waited: float = math.nan
    run_by: str = ""


@dataclass(frozen=True)
class KernelTime:
    """Seconds that one kernel took in the last run; NaN if it was skipped.

    `elements` of the batch are what it computed at once, mostly one.
    """

    task: str
    elements: tuple[int, ...]
    kernel: str
    device: str
    seconds: float


def traced_steps(
    plan: Plan,
    problem: Problem,
    spans: Sequence[tuple[float, float]],
    waits: Sequence[float],
    run_by: Sequence[int],
) -> list[TracedStep]:
    """The steps of a plan with their times."""
    steps = []
    names = [worker.name for worker in plan.workers]
    rows = zip(plan.steps, spans, waits, run_by, strict=True)
    for step, (start, end), waited, runner in rows:
        of = [split_task(name) for name in step.tasks]
        tasks = tuple(task for task, own in of for _ in own)
        elements = tuple(element for _, own in of for element in own)
        calls = tuple((task, len(own)) for task, own in of)
        kind = "copy" if step.kind is StepKind.COPY else _main_op(problem, tasks)
        name = ", ".join(dict.fromkeys(tasks)) if tasks else step.name
        worker = names[step.worker]
        ran = worker if runner < 0 else names[runner]
        steps.append(
            TracedStep(name, worker, start, end, kind, tasks, elements, calls, waited, ran)
        )
    return steps


def kernel_times(plan: Plan, seconds: Sequence[float]) -> list[KernelTime]:
    """The kernels of a plan, in its order, with their times; behind them the tasks that needed no
    kernel, which took none.
    """
    workers = [(plan.worker_of_step(step).name, step) for step in plan.steps]
    calls = [(worker, call) for worker, step in workers for call in step.calls]
    called = [
        KernelTime(*split_task(call.task), call.kernel, worker, value)
        for (worker, call), value in zip(calls, seconds, strict=True)
    ]
    joined = [
        KernelTime(*split_task(task), "", worker, 0.0)
        for worker, step in workers
        for task in step.joined
    ]
    return called + joined


def _main_op(problem: Problem, tasks: Sequence[str]) -> str:
    """The op of the task that takes most of a segment's time."""
    if not tasks:
        return ""

    def longest(task: str) -> float:
        return max(cost.seconds(1) for cost in problem.costs[task].values())

    return problem.graph.task(max(tasks, key=longest)).op
