"""Nested programs: what they know that other rungs do not, and that no schedule beats them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.brute_force import brute_force
from tests.draws import draws
from tests.solvers.examples import problem_of, processors
from tests.strategies import problems
from tvm_hetero.bounds import bound_ladder
from tvm_hetero.bounds.ladder import chain_of, program_of
from tvm_hetero.bounds.latency.critical_path import limit_of, path_of
from tvm_hetero.bounds.latency.modules import ModuleChain
from tvm_hetero.bounds.latency.nested import Nested, nest
from tvm_hetero.problem import Problem
from tvm_hetero.solvers import solve
from tvm_hetero.views.arrays import figures_of
from tvm_hetero.views.instance import Instance

_EASE = 1 + 1e-9


def chain_for(problem: Problem) -> ModuleChain:
    figures = figures_of(Instance(problem))
    chain = chain_of(figures, limit_of(figures, path_of(figures)))
    assert chain is not None
    return chain


def two_crowds() -> Problem:
    """Six tasks, then two that read all of them, then six that read both: one module."""
    firsts, lasts = [f"a{i}" for i in range(6)], [f"c{i}" for i in range(6)]
    costs = {n: {"p1": 1.0, "p2": 1.0} for n in [*firsts, "b0", "b1", *lasts]}
    edges = [(a, b, 0) for a in firsts for b in ("b0", "b1")]
    edges += [(b, c, 0) for b in ("b0", "b1") for c in lasts]
    return problem_of(costs, edges, processors(2))


@settings(max_examples=draws(25), deadline=None, suppress_health_check=list(HealthCheck))
@given(problem=problems(max_tasks=6, max_devices=3, kinds=("latency",)), free=st.booleans())
def test_not_above_the_optimum(problem: Problem, free: bool) -> None:
    # H far above the optimum says what the programs prove; H just above also tries windows.
    best = brute_force(problem)
    chain = chain_for(problem)
    limit = max(best, 1e-9) * (4.0 if free else 1.05)
    for m in range(chain.cuts.count):
        nested = Nested(chain.around(m), limit, 10**6)
        bound = nested.bound()
        assert bound <= best * _EASE
        chain.lift(m, np.maximum(bound, nested.entries()))
        assert chain.value() <= best * _EASE


@settings(max_examples=draws(14), deadline=None, suppress_health_check=list(HealthCheck))
@given(problem=problems(max_tasks=14, kinds=("latency",), exact=False, memory=True))
def test_not_above_a_schedule(problem: Problem) -> None:
    value = solve(problem, "heft").value
    chain = chain_for(problem)
    for m in range(chain.cuts.count):
        nested = Nested(chain.around(m), max(value, 1e-9) * 1.5, 10**6)
        chain.lift(m, np.maximum(nested.bound(), nested.entries()))
        assert chain.value() <= value * _EASE


def test_heads_know_the_work_of_ancestors() -> None:
    # 6 tasks on two devices, 2 on two, 6 on two: 3 + 1 + 3. By paths and loads together: less.
    figures = figures_of(Instance(two_crowds()))
    whole = program_of(figures, limit_of(figures, path_of(figures)))
    nested = Nested(chain_for(two_crowds()).around(0), 20.0, 10**6)
    assert nested.bound() == pytest.approx(7.0)
    assert nested.bound() >= whole
    # A task in the middle ends after the six before it have shared two devices.
    assert nested.part.head[6].min() == pytest.approx(4.0)


def test_a_makespan_that_is_assumed_too_small_is_raised_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tvm_hetero.bounds.latency.nested._LARGE", 2)
    chain = chain_for(two_crowds())
    assert chain.value() * 1.12 < 7.0
    assert nest(chain, 10**6) == pytest.approx(7.0)


def test_nothing_above_a_known_value_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tvm_hetero.bounds.latency.nested._LARGE", 2)
    assert nest(chain_for(two_crowds()), 10**6, upper=5.0) == pytest.approx(5.0)
    assert nest(chain_for(two_crowds()), 0) == chain_for(two_crowds()).value()


@pytest.mark.slow
def test_the_ladder_has_the_rung_for_large_modules() -> None:
    costs = {f"t{i:02d}": {"p1": 1.0 + i / 8, "p2": 2.0 + i / 8} for i in range(20)}
    names = sorted(costs)
    edges = [(names[i], names[i + 3], 8) for i in range(17)]
    problem = problem_of(costs, edges, processors(2))
    rungs = {rung.name: rung.value for rung in bound_ladder(problem)}
    assert rungs["nested programs"] >= rungs["critical path"] * (1 - 1e-9)
    assert max(rungs.values()) < math.inf
    again = {rung.name: rung.value for rung in bound_ladder(problem)}
    assert rungs == again
