"""Time limits on a sample of the zoo, counted and not timed: when the time is up, little is done.

The time is up from the start here, by a clock that is a counter, so what is done is what no limit
leaves out: necessary checks, one plan and the first bound. How much that is, is the number of calls
of functions, which is the same on every machine. Whole sweeps by the processor's clock are
`python -m benchmarks.limits --zoo`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import count

import pytest
import scipy.optimize  # noqa: F401 - what is imported on the way would be counted

from benchmarks.limit_keeping.zoo_cases import ZooCase
from tvm_hetero.check import check_schedule
from tvm_hetero.solvers import Options, solve
from tvm_hetero.solvers.core.deadline import Deadline

# Large platforms, where what comes before and after solvers was what took long; and memory limits.
CASES = (
    ZooCase("resnet18", "gpt3-64node", "latency"),
    ZooCase("gnn", "gpt3-64node", "latency", batch=8),
    ZooCase("lstm", "mixed-16", "throughput", batch=8),
    ZooCase("gpt2-small", "mixed-16", "latency", share=0.5),
    ZooCase("vgg16", "gpt3-64node", "throughput", share=0.5),
)
# Calls for each task and device (or pair of those without a link) once the time is up.
# One plan on a device alone and one of a pass over all tasks are among them, and imports.
_CALLS = 250


@pytest.mark.filterwarnings("ignore::tvm_hetero.errors.SolverWarning")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_late_solver_does_little_for_each_task_and_device(case: ZooCase) -> None:
    problem = case.problem()
    moments = count()
    ends = Deadline(0.0, lambda: float(next(moments)))  # it has passed
    options = Options(time_limit=1.0, ends=ends, clock=ends.clock)
    answers = []
    calls = _calls(lambda: answers.append(solve(problem, "auto", options)))
    size = len(problem.tasks) * len(problem.platform.devices)
    assert calls <= _CALLS * size, f"{calls} calls, {calls / size:.0f} for each"
    assert not check_schedule(problem, answers[0])
    assert answers[0].value <= solve(problem, "one-pass", Options(ends=Deadline.after(-1))).value


def _calls(run: Callable[[], None]) -> int:
    """How many functions are called, of Python and C."""
    found = 0

    def note(frame: object, event: str, argument: object) -> None:
        nonlocal found
        found += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
    return found
