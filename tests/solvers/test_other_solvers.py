"""A refusal names only solvers that take this very problem."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace

import pytest
from hypothesis import given, settings

from benchmarks.scheduling.runner import zoo_case
from tests.draws import draws
from tests.strategies import problems
from tvm_hetero.errors import HeteroError
from tvm_hetero.problem import Problem
from tvm_hetero.solvers import Options, names, solve

QUICK = Options(time_limit=1.0, deadline=60.0)
REFUSES = re.compile(
    r"at most|not serve|serves|minimises|too many|too short|divides a batch|times tasks"
)


def refusal(problem: Problem, solver: str, options: Options = QUICK) -> str:
    """What a solver says that has no answer; nothing if it has one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            solve(problem, solver, options)
        except HeteroError as error:
            return str(error)
    return ""


@settings(max_examples=draws(8), deadline=None)
@given(problem=problems(max_tasks=4, memory=True, feasible=False, contiguous=True))
def test_who_is_named_takes_the_problem(problem: Problem) -> None:
    for solver in sorted({"heft", "count-dp", "one-pass", "batches", "linear-dp", "elements"}):
        for text in re.findall(r"use (?:solver )?([a-z, -]+)$", refusal(problem, solver)):
            named = re.split(r", | or ", text)
            assert set(named) <= set(names()), text
            for other in named:
                assert not REFUSES.search(refusal(problem, other)), (solver, other)


@pytest.mark.parametrize(("tasks", "named"), [(60, True), (4000, False)])
def test_cpsat_is_named_only_where_its_model_fits(tasks: int, named: bool) -> None:
    """A device that holds no more than one heavy task each: HEFT gets stuck."""
    problem = zoo_case("layered", "phone", tasks=tasks)
    least = sum(task.weight_bytes for task in problem.tasks) // len(problem.platform.devices)
    devices = tuple(replace(d, memory=int(least * 1.001)) for d in problem.platform.devices)
    tight = replace(problem, platform=replace(problem.platform, devices=devices))
    text = refusal(tight, "heft", Options(time_limit=5.0))
    assert ("this problem: cpsat" in text) == named
    assert "memory" in text and text.endswith("auto")
