"""The cuts cut off no schedule, and say what they should."""

from __future__ import annotations

from hypothesis import HealthCheck, assume, given, settings

from tests.brute_force import brute_force
from tests.draws import draws
from tests.solvers.examples import counted, fork_join
from tests.strategies import problems
from tvm_hetero.problem import Problem
from tvm_hetero.solvers.core.cpsat_run import CpsatBudget
from tvm_hetero.solvers.lists.partial_schedule import list_schedule
from tvm_hetero.solvers.milp_split.module_cpsat import search
from tvm_hetero.solvers.milp_split.module_table import ModuleTable
from tvm_hetero.solvers.milp_split.valid_inequalities import ancestors, members
from tvm_hetero.views.instance import Instance
from tvm_hetero.views.modularity import Piece, cut_is_exact, modules_of

OPTIONS = counted(time_limit=20.0)


def test_ancestors_are_all_that_a_part_waits_for() -> None:
    instance = Instance(fork_join(3))
    names = instance.tasks
    masks = enumerate(ancestors(instance))
    found = {names[v]: sorted(names[u] for u in members(mask)) for v, mask in masks}
    assert found["in"] == []
    assert found["out"] == sorted(name for name in names if name != "out")


@settings(max_examples=draws(36), deadline=None, suppress_health_check=list(HealthCheck))
@given(problem=problems(max_tasks=5))
def test_a_proof_with_cuts_is_the_optimum(problem: Problem) -> None:
    instance = Instance(problem)
    assume(cut_is_exact(instance))
    piece = Piece(instance, instance.order)
    start = list_schedule(piece)
    budget = CpsatBudget(10.0, float("inf"))
    found, bound = search(piece, start, OPTIONS, budget, linear=1, prove=True)
    best = brute_force(problem)
    assert found is not None
    assert abs(found.value - best) <= 1e-9 * max(best, 1.0)
    assert best * (1 - 1e-6) - 1e-9 <= bound <= best * (1 + 1e-9)


@settings(max_examples=draws(25), deadline=None, suppress_health_check=list(HealthCheck))
@given(problem=problems(max_tasks=6, max_devices=2))
def test_bounding_all_entries_at_once_is_never_above_one_of_them(problem: Problem) -> None:
    instance = Instance(problem)
    assume(cut_is_exact(instance))
    for module in modules_of(instance):
        table = ModuleTable.of(Piece(instance, module.parts), module)
        table.improve(OPTIONS, CpsatBudget(5.0, float("inf")))
        for entry in table.entries.values():
            start = list_schedule(entry.piece)
            budget = CpsatBudget(5.0, float("inf"))
            found, _ = search(entry.piece, start, OPTIONS, budget, linear=0, prove=False)
            assert found is not None
            assert entry.low <= found.value * (1 + 1e-9)
            assert entry.value >= found.value * (1 - 1e-9)
