"""A small problem and a valid schedule of it, for tests of reports and of the command line."""

from __future__ import annotations

from tvm_hetero.platform import Device, Link, Platform
from tvm_hetero.problem import Cost, Objective, Problem
from tvm_hetero.problem.graph import Edge, Task, TaskGraph
from tvm_hetero.problem.schedule import Copy, Execution, Schedule, SingleDevice

EVIL = "<script>alert('x')</script>\x1b[31m[bold]&\u202e"


def problem(name: str = "fork", evil: bool = False) -> Problem:
    """Task a feeds b and c on two devices; with `evil`, c has a hostile name."""
    last = EVIL if evil else "c"
    tasks = [Task("a", "conv2d", 1024, 4000), Task("b", "relu"), Task(last, "max_pool2d")]
    seconds = {"a": (1e-3, 2e-3), "b": (4e-3, 8e-3), last: (3e-3, 3e-3)}
    return Problem(
        TaskGraph(tasks, [Edge("a", "b", 4000), Edge("a", last, 4000)]),
        {
            task: {"big": Cost(((1, fast),)), "little": Cost(((1, slow),))}
            for task, (fast, slow) in seconds.items()
        },
        Platform(
            (Device("big", overlap=True), Device("little", overlap=True)),
            (Link("big", "little", 4e6), Link("little", "big", 4e6)),
            name="big-little",
        ),
        Objective(),
        name,
    )


def schedule(of: Problem | None = None) -> Schedule:
    """The best schedule of `problem`: b on big beside c on little, which waits for a copy."""
    of = of or problem()
    last = of.tasks[2].id
    return Schedule(
        problem=of.digest,
        solver="hand",
        kind="latency",
        executions=(
            Execution("a", "big", (0,), 0.0, 1e-3),
            Execution("b", "big", (0,), 1e-3, 5e-3),
            Execution(last, "little", (0,), 2e-3, 5e-3),
        ),
        copies=(Copy("a", (0,), "big", "little", 1e-3, 2e-3),),
        value=5e-3,
        lower_bound=4e-3,
        best_single_device=SingleDevice("big", 8e-3),
    )
