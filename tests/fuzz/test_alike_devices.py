"""A few problems of alike devices; `tests.fuzz.alike_devices` draws more of them."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from tests.fuzz.alike_devices import CLOSED, OPTIONS, compare, small_is_large
from tests.fuzz.alike_problems import alike_problem
from tests.fuzz.alike_tables import Tables, faults_of_tables
from tvm_hetero.errors import InfeasibleError
from tvm_hetero.problem import Problem
from tvm_hetero.solvers import solve
from tvm_hetero.solvers.milp_split import module_table, tighten
from tvm_hetero.solvers.milp_split.module_bounds import BoundEntry
from tvm_hetero.views.instance import instance_of
from tvm_hetero.views.modularity import cut_is_exact
from tvm_hetero.views.symmetry import find_symmetry

_MANY = range(200)


def test_no_bound_is_above_the_optimum_and_notes_change_no_answer() -> None:
    with small_is_large():
        judged = {seed: compare(seed, 2e3) for seed in range(4)}
    assert {seed: found for seed, (_, found) in judged.items() if found} == {}
    assert Counter(verdict for verdict, _ in judged.values())[CLOSED] >= 2


def _can_be_cut(problem: Problem) -> bool:
    try:
        return problem.objective.kind == "latency" and cut_is_exact(instance_of(problem))
    except InfeasibleError:
        return False


def test_an_optimum_that_is_too_low_is_found_out() -> None:
    problem = next(filter(_can_be_cut, map(alike_problem, _MANY)))
    best = solve(problem, "milp-split", OPTIONS).value
    assert faults_of_tables(problem, best, OPTIONS, random.Random(0)) == []
    assert faults_of_tables(problem, best / 2, OPTIONS, random.Random(0))


def test_a_table_that_loses_a_schedule_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = next(filter(_can_be_cut, map(alike_problem, _MANY)))
    monkeypatch.setattr(BoundEntry, "take", lambda entry, found: None)
    assert list(Tables(problem, 1.0, OPTIONS, random.Random(0)).take())


def test_small_modules_are_large_for_a_while_only() -> None:
    before = module_table._TOGETHER, tighten._LARGE
    with small_is_large():
        assert (module_table._TOGETHER, tighten._LARGE) == (2, 2)
    assert (module_table._TOGETHER, tighten._LARGE) == before != (2, 2)


def test_in_most_problems_devices_are_alike_and_modules_are_exact() -> None:
    problems = [alike_problem(seed) for seed in _MANY]
    kinds = [find_symmetry(problem).types() for problem in problems]
    assert sum(len(set(row)) < len(row) for row in kinds) > len(_MANY) / 2
    assert sum(map(_can_be_cut, problems)) > len(_MANY) / 2
    assert sum(bool(problem.platform.cliques) for problem in problems) > len(_MANY) / 20
    assert sum(len({device.node for device in p.platform.devices}) > 1 for p in problems) > 10
