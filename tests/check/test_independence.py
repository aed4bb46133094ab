"""The judge counts by himself: nothing of his is used by solvers, nothing of theirs by him."""

from __future__ import annotations

import ast
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tvm_hetero
from tests.strategies import orders, problems
from tvm_hetero.check import memory, tolerances, value
from tvm_hetero.platform import Device, Link, Platform
from tvm_hetero.problem import KINDS, Cost, Objective, Problem
from tvm_hetero.problem import memory as solvers_memory
from tvm_hetero.problem import objective as solvers_value
from tvm_hetero.problem.graph import Edge, Task, TaskGraph
from tvm_hetero.problem.schedule import Copy, Execution
from tvm_hetero.problem.simulate import simulate
from tvm_hetero.solvers.core import score

ROOT = Path(tvm_hetero.__file__).parent
# They hand answers to the judge.
HAND_IN = {
    "tvm_hetero.solvers.run_solver",
    "tvm_hetero.solvers.core.verified_call",
    "tvm_hetero.solvers.throughput.fewer_transfers",
}
# What the judge may know of problems: what they say, and that they never change.
PLAIN = {"cost", "digest", "format", "graph", "memoize", "model", "objective_kinds", "schedule"}


def modules(*rooms: str) -> list[str]:
    """All modules of some rooms, by their full names."""
    paths = [path for room in rooms for path in sorted((ROOT / room).rglob("*.py"))]
    names = [".".join(path.relative_to(ROOT.parent).with_suffix("").parts) for path in paths]
    return [name.removesuffix(".__init__") for name in names]


def imports(module: str) -> set[str]:
    """What a module imports anywhere, functions included."""
    path = ROOT.parent.joinpath(*module.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


def loaded_by(code: str) -> set[str]:
    """The modules of the package that a fresh interpreter has loaded after `code`."""
    code += "\nimport sys; print(*sorted(m for m in sys.modules if m.startswith('tvm_hetero')))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


SOLVING = modules("solvers", "bounds", "views", "problem", "platform", "util")


@pytest.mark.parametrize("module", [name for name in SOLVING if name not in HAND_IN])
def test_nothing_of_the_judge_is_named_where_schedules_are_made(module: str) -> None:
    assert {name for name in imports(module) if name.startswith("tvm_hetero.check")} == set()


def test_loading_all_that_makes_schedules_loads_nothing_of_the_judge() -> None:
    # The first two of those that hand in ask for the judge when they are called.
    names = [n for n in SOLVING if n != "tvm_hetero.solvers.throughput.fewer_transfers"]
    loaded = loaded_by("\n".join(f"import {name}" for name in names))
    assert set(names) <= loaded
    assert {name for name in loaded if name.startswith("tvm_hetero.check")} == set()


def test_judging_loads_no_solver_and_no_counter_of_theirs() -> None:
    code = """
from tvm_hetero.check import check_schedule
from tvm_hetero.platform import Device, Platform
from tvm_hetero.problem import Cost, Objective, Problem
from tvm_hetero.problem.graph import Task, TaskGraph
from tvm_hetero.problem.schedule import Execution, Schedule
place = Platform((Device("a", memory=1, watts=1.0),))
graph = TaskGraph([Task("t", weight_bytes=2)], [])
problem = Problem(graph, {"t": {"a": Cost(((1, 1.0),))}}, place, Objective("energy"))
run = (Execution("t", "a", (0,), 0.0, 1.0),)
schedule = Schedule(problem.digest, "", "energy", run, (), 1.0, 0.0)
assert [v.rule for v in check_schedule(problem, schedule)] == [6]
"""
    loaded = loaded_by(code)
    rooms = {name.split(".")[1] for name in loaded if "." in name}
    assert rooms - {"_version"} == {"check", "errors", "platform", "problem", "util"}
    parts = (name.split(".") for name in loaded)
    assert {names[2] for names in parts if names[1:2] == ["problem"] and len(names) > 2} == PLAIN


@pytest.mark.parametrize("module", modules("check"))
def test_the_judge_names_the_plain_data_of_problems_alone(module: str) -> None:
    parts = [name.split(".") for name in imports(module)]
    ours = [names for names in parts if names[0] == "tvm_hetero"]
    known = {"check", "errors", "platform", "problem", "util"}
    assert {names[1] for names in ours if len(names) > 1} <= known
    assert {names[2] for names in ours if names[1:2] == ["problem"] and len(names) > 2} <= PLAIN


@st.composite
def plans(draw: st.DrawFn, given_: Problem) -> tuple[tuple[Execution, ...], tuple[Copy, ...]]:
    """A plan of a problem: as it was timed, or with moved times, and hops left out or doubled."""
    executions, copies = simulate(given_, draw(orders(given_)))
    if draw(st.booleans()):
        return executions, copies
    by = st.sampled_from([0.0, 0.0, 0.5, 3.0, 1e-12])
    executions = tuple(replace(e, start=e.start + draw(by), end=e.end + draw(by) * 2)
                       for e in executions)  # fmt: skip
    if copies:
        copies = tuple(draw(st.lists(st.sampled_from(copies), max_size=2 * len(copies))))
        copies = tuple(replace(c, start=c.start + draw(by), end=c.end + draw(by) * 2)
                       for c in copies)  # fmt: skip
    return executions, copies


@given(st.data(), st.booleans().flatmap(lambda teams: problems(
    kinds=KINDS, batch=3, memory=True, exact=False, teams=teams
)))  # fmt: skip
def test_the_judge_and_the_solvers_count_the_same_memory(
    data: st.DataObject, given_: Problem
) -> None:
    plan = data.draw(plans(given_))
    theirs = solvers_memory.timed_peaks(given_, *plan)
    assert {name: tuple(need) for name, need in memory.needs(given_, *plan).items()} == theirs
    assert memory.memory_peaks(given_, *plan) == solvers_memory.memory_peaks(given_, *plan)
    total, names = memory.all_bytes(given_, *plan), given_.platform.names
    assert {name: total[name] for name in names} == solvers_memory.most_bytes(given_, *plan)


@given(st.data(), st.booleans().flatmap(lambda teams: problems(
    kinds=KINDS, batch=3, exact=False, teams=teams, energies=True
)))  # fmt: skip
def test_the_judge_and_the_solvers_count_the_same_loads_and_value(
    data: st.DataObject, given_: Problem
) -> None:
    plan = data.draw(plans(given_))
    theirs = solvers_value.loads(given_, *plan)
    ours = value.busy_times(given_, *plan)
    assert {key[0] if len(key) == 1 else key: seconds for key, seconds in ours.items()} == theirs
    found = value.objective_value(given_, *plan)
    # To the last digit: what is written of a plan must not depend on who counted.
    assert found == solvers_value.objective_value(given_, *plan)
    assert tolerances.of_times(plan[0]) == solvers_value.tolerance(plan[0])


@given(st.data(), st.booleans().flatmap(lambda teams: problems(
    kinds=KINDS, batch=3, exact=False, teams=teams, energies=True
)))  # fmt: skip
def test_solvers_choose_by_the_value_that_the_judge_will_find(
    data: st.DataObject, given_: Problem
) -> None:
    """Their quick value adds the times of the plan, not those of the problem: equal but for it."""
    plan = simulate(given_, data.draw(orders(given_)))
    found = value.objective_value(given_, *plan)
    slack = 10 * tolerances.of_value(given_, plan.executions, found) + 1e-9 * (
        tolerances.last_end(plan.executions) * sum(d.watts or 0 for d in given_.platform.devices)
    )
    assert abs(score.value_of(given_, *plan) - found) <= slack


def test_a_stop_on_the_way_is_in_use_for_both() -> None:
    devices = tuple(
        Device(name, watts=1.0, idle_watts=1.0, price=3600.0, overlap=True) for name in "abc"
    )
    one = Cost(((1, 1.0),))
    through = Problem(
        TaskGraph([Task("s"), Task("r")], [Edge("s", "r", 1)]),
        {"s": {"a": one}, "r": {"c": one}},
        Platform(devices, (Link("a", "b"), Link("b", "c"))),
        Objective("cost"),
    )
    plan = simulate(through, [("s", "a", (0,)), ("r", "c", (0,))])
    assert value.busy_times(through, *plan) == {("a",): 1.0, ("b",): 0.0, ("c",): 1.0}
    assert value.objective_value(through, *plan) == 3 * 2.0
    assert solvers_value.objective_value(through, *plan) == 3 * 2.0


def test_an_energy_may_be_off_by_what_idling_costs_in_the_rounding_of_the_makespan() -> None:
    place = Platform((Device("a", watts=0.0, idle_watts=2.0), Device("b", watts=0.0)))
    run = (Execution("t", "a", (0,), 0.0, 10.0),)
    for kind, expected in (("latency", 3e-9), ("energy", 20e-9)):
        cost = {"t": {"a": Cost(((1, 10.0),))}}
        given_ = Problem(TaskGraph([Task("t")], []), cost, place, Objective(kind))
        assert tolerances.of_value(given_, run, 3.0) == pytest.approx(expected)
