"""Modules of many teams: the model of widths alone, and schedules that are made of it."""

from __future__ import annotations

import random
import time

import pytest

from tests.brute_force import Exhausted, limited, optimal_schedule
from tests.solvers.examples import counted
from tvm_hetero.check import verified
from tvm_hetero.platform import Device, Fabric, Platform
from tvm_hetero.problem import Cost, Problem
from tvm_hetero.problem.graph import Edge, Task, TaskGraph
from tvm_hetero.solvers import Options, solve
from tvm_hetero.solvers.core.cpsat_run import CpsatBudget
from tvm_hetero.solvers.lists.partial_schedule import list_schedule
from tvm_hetero.solvers.milp_split import width_model
from tvm_hetero.solvers.milp_split.module_table import ModuleTable
from tvm_hetero.solvers.milp_split.width_model import lay_out, search_widths
from tvm_hetero.views.instance import instance_of
from tvm_hetero.views.modularity import Piece, modules_of
from tvm_hetero.views.symmetry import find_symmetry

BUDDIES = [(i,) for i in range(4)] + [(0, 1), (2, 3), (0, 1, 2, 3)]


def chain(seed: int, most: int = 2) -> Problem:
    """Cuts and up to three branches between them, on four cores in buddies."""
    rng = random.Random(seed)
    names: list[str] = []
    edges: list[Edge] = []
    last: list[str] = []
    for m in range(rng.randint(1, most)):
        cut, size = f"c{m}", rng.choice([0, 8, 64])
        names.append(cut)
        edges += [Edge(branch, cut, size) for branch in last]
        last = [f"m{m}b{b}" for b in range(rng.randint(1, 3))]
        edges += [Edge(cut, branch, size) for branch in last]
        names += last
    devices = tuple(Device(f"t{i}", cores=cores, overlap=True) for i, cores in enumerate(BUDDIES))
    costs = {}
    for name in names:
        work, gain = rng.randint(1, 10), rng.choice([0.0, 0.4, 0.8, 1.0])
        costs[name] = {
            d.name: Cost(((1, work / (1 + gain * (len(d.cores) - 1))),)) for d in devices
        }
    fabric = Fabric("node0", rng.choice([16.0, float("inf")]), rng.choice([0.0, 0.25]))
    graph = TaskGraph([Task(name) for name in names], edges)
    return Problem(graph, costs, Platform(devices, fabrics=(fabric,)))


def budget() -> CpsatBudget:
    return CpsatBudget(5.0, time.monotonic() + 60.0)


@pytest.mark.parametrize("seed", range(12))
def test_widths_bound_every_schedule_and_are_laid_out_as_one(seed: int) -> None:
    problem = chain(seed)
    instance = instance_of(problem)
    kinds = find_symmetry(problem).types()
    start = list_schedule(instance)
    found, bound = search_widths(instance, kinds, start, Options(), budget())
    exact = solve(problem, "exhaustive", counted(time_limit=20.0))
    assert exact.status == "optimal"
    assert bound <= exact.value * (1 + 1e-9)
    assert found is None or found.value >= exact.value * (1 - 1e-9)


def test_prices_of_the_ends_bound_every_entry() -> None:
    problem = chain(5)
    instance = instance_of(problem)
    module = modules_of(instance)[0]
    table = ModuleTable.of(Piece(instance, module.parts), module)
    assert len(table.entries) == 3 and set(table.kinds) == {0, 4, 6}
    table.by_width = True
    table.improve(Options(), budget())
    for entry in table.entries.values():
        assert entry.low <= list_schedule(entry.piece).value * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(20, 26))
def test_modules_by_widths_are_optimal(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(width_model, "MANY", 3)
    problem = chain(seed)
    answer = verified(problem, solve(problem, "milp-split", counted(time_limit=4.0)))
    try:
        with limited(20_000):
            better = optimal_schedule(problem, answer.value * (1 - 1e-6))
    except Exhausted:
        better = None
    assert better is None
    assert answer.lower_bound <= answer.value


def test_a_layout_keeps_to_its_classes() -> None:
    problem = chain(3)
    instance = instance_of(problem)
    kinds = find_symmetry(problem).types()
    all_wide = lay_out(instance, kinds, instance.order, [6] * len(instance))
    assert all_wide is not None and set(all_wide.placement) == {6}
    narrow = lay_out(instance, kinds, instance.order, [0] * len(instance))
    assert narrow is not None and set(narrow.placement) <= {0, 1, 2, 3}
