"""Solvers by name: which there are, and one of one's own beside them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.scheduling.runner import zoo_case
from tests.solvers.examples import fork_join
from tvm_hetero.errors import UsageError
from tvm_hetero.problem import KINDS, Kind, Objective, Problem
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.solvers import Options, names, register, solve
from tvm_hetero.solvers import registry as registry_module
from tvm_hetero.solvers.auto import portfolio
from tvm_hetero.solvers.registry import is_baseline


def test_names_are_sorted_and_complete() -> None:
    assert names() == tuple(sorted(names())) and {"auto", "cpsat", "heft", "single"} <= set(names())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("batch", [1, 4])
def test_auto_asks_no_baseline(kind: Kind, batch: int) -> None:
    problem = zoo_case("light-squeezenet", "diviml", Objective(kind, batch))
    line_up = {stage.solver for stage in portfolio(problem)}
    assert not any(is_baseline(name) for name in line_up)
    assert {name for name in names() if is_baseline(name)} == {
        "genetic", "greedy", "milp", "random-walk",
    }  # fmt: skip


def test_a_solver_of_ones_own_is_no_baseline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry_module, "_REGISTERED", {})
    register("mine", registry_module.solver_of("single"))
    assert not is_baseline("mine")
    with pytest.raises(UsageError, match="no solver 'hefd'"):
        is_baseline("hefd")


def test_unknown_solver_suggests_the_nearest() -> None:
    with pytest.raises(UsageError, match="no solver 'hefd'; did you mean 'heft'"):
        solve(fork_join(2), "hefd")


def test_registered_solver_is_used_and_its_name_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry_module, "_REGISTERED", {})

    def mine(problem: Problem, options: Options) -> Schedule:
        return replace(solve(problem, "heft", options), solver="mine")

    register("mine", mine)
    assert solve(fork_join(4), "mine").solver == "mine"
    with pytest.raises(UsageError, match="a solver 'mine' already"):
        register("mine", mine)
