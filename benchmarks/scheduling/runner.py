"""One solver on one problem, as a row of a table."""

from __future__ import annotations

import math
import os
import time
import warnings
from collections.abc import Callable
from typing import Any

from benchmarks.limit_keeping.timed_call import has_processor_clock
from tvm_hetero import zoo
from tvm_hetero.errors import HeteroError
from tvm_hetero.problem import Objective, Problem
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.solvers import Options, solve

Row = dict[str, Any]
Make = Callable[[], Problem]
# Searches of less than so many seconds are cut after so many.
_BRIEF, _PATIENCE = 1.0, 10.0


def zoo_case(name: str, platform: str, objective: Objective | None = None, **sizes: Any) -> Problem:
    """A problem of the zoo, named by what it is made of."""
    return zoo.problem(name, platform, objective or Objective(), **sizes)


def run(
    problem: Problem,
    solver: str,
    time_limit: float,
    *,
    start: Schedule | None = None,
    backend: str = "auto",
    symmetry: str = "time",
    workers: int = 1,
) -> tuple[Row, Schedule | None]:
    """Solve and note value, bound, gap and seconds; what goes wrong becomes the row's `error`.

    Wall and processor seconds both, since others may be at work on the machine (see `cut_after`).
    """
    deadline = cut_after(time_limit)
    options = Options(
        time_limit=time_limit, start=start, backend=backend, symmetry=symmetry, workers=workers,
        deadline=deadline,
    )  # fmt: skip
    row: Row = {"solver": solver, "time_limit": time_limit}
    if has_processor_clock():
        row["clock"] = "processor"
    if deadline is not None:
        row["cut_after"] = deadline
    began, used = time.perf_counter(), time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            answer = solve(problem, solver, options)
        except HeteroError as error:
            seconds = time.perf_counter() - began
            row["cpu_seconds"] = time.process_time() - used
            return row | {"seconds": seconds, "error": str(error).split("\n")[0]}, None
    row |= {
        "value": answer.value,
        "bound": answer.lower_bound,
        "gap": answer.gap,
        "status": answer.status,
        "seconds": time.perf_counter() - began,
        "cpu_seconds": time.process_time() - used,
        "by": answer.solver,
    }
    single = answer.best_single_device
    row["single"] = None if single is None else single.value
    faults = [str(w.message) for w in caught if "SolverWarning" in type(w.message).__name__]
    return (row | {"warnings": faults} if faults else row), answer


def cut_after(time_limit: float) -> float | None:
    """Wall seconds after which the clock cuts a search; None of a machine that has time for us.

    Where more processes want to run than there are cores, it cuts as much later: what is found
    then depends on the work that the limit stands for, not on what others do. Of a small limit one
    turn of another process is a large part, and the load of the last minute says little of it. The
    processor's clock (`--processor`) stands still while others are at work.
    """
    if has_processor_clock():
        return None
    crowd = os.getloadavg()[0] / len(os.sched_getaffinity(0))
    if time_limit < _BRIEF:
        return _PATIENCE
    return time_limit * (1 + crowd) if crowd > 0.6 else None


def describe(problem: Problem, case: str) -> Row:
    """What identifies a case in a table."""
    return {
        "case": case,
        "tasks": len(problem.tasks),
        "devices": len(problem.platform.devices),
        "kind": problem.objective.kind,
        "batch": problem.batch,
    }


def geometric_mean(ratios: list[float]) -> float:
    """The mean that does not care which of the two is the unit; nan of nothing."""
    if not ratios:
        return math.nan
    return math.exp(math.fsum(math.log(r) for r in ratios) / len(ratios))
