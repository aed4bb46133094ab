"""Which solvers know devices that share cores, and what the others say."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.solvers.examples import counted
from tvm_hetero.errors import InfeasibleError, SolverError
from tvm_hetero.platform import Device, Platform
from tvm_hetero.problem import Cost, Kind, Objective, Problem
from tvm_hetero.problem.graph import Edge, Task, TaskGraph
from tvm_hetero.solvers import names, solve
from tvm_hetero.solvers.auto import portfolio
from tvm_hetero.solvers.quickest import solve as solve_quickest
from tvm_hetero.solvers.registry import knows_teams

PAIR = ((0,), (1,), (0, 1))


def fork(sets: tuple[tuple[int, ...], ...] = PAIR, kind: Kind = "latency", batch: int = 1,
         *, contiguous: bool = False) -> Problem:  # fmt: skip
    """A wide task, two branches that gain nothing from a second core, and a wide task again."""
    graph = TaskGraph(
        [Task(name) for name in ("stem", "left", "right", "head")],
        [Edge("stem", "left", 8), Edge("stem", "right", 8),
         Edge("left", "head", 8), Edge("right", "head", 8)],
    )  # fmt: skip
    devices = tuple(
        Device(f"t{i}", cores=cores, overlap=True, watts=1.0, price=1.0)
        for i, cores in enumerate(sets)
    )
    links = Platform(devices).links
    scaled = {"stem": 1.0, "left": 0.0, "right": 0.0, "head": 1.0}
    costs = {
        name: {d.name: Cost(((1, 4.0 / (1 + scaled[name] * (len(d.cores) - 1))),)) for d in devices}
        for name in scaled
    }
    from tvm_hetero.platform import Fabric

    platform = Platform(devices, links, (Fabric("node0"),))
    return Problem(graph, costs, platform, Objective(kind, batch, contiguous=contiguous))


@pytest.mark.parametrize("name", ["auto", "heft", "cpsat", "milp-split", "exhaustive", "annealing"])
def test_wide_tasks_take_both_cores_and_branches_one_each(name: str) -> None:
    answer = solve(fork(), name, counted(time_limit=1.0))
    assert answer.value == 2.0 + 4.0 + 2.0
    assert {e.task: e.device for e in answer.executions}["stem"] == "t2"
    assert answer.best_single_device is not None
    assert answer.best_single_device.value == 12.0


@pytest.mark.parametrize("name", names())
@pytest.mark.parametrize("kind", ["latency", "throughput", "energy", "cost"])
def test_a_solver_that_knows_no_teams_says_so_by_name(name: str, kind: Kind) -> None:
    given_ = fork(kind=kind)
    if knows_teams(name, given_):
        assert solve(given_, name, counted(time_limit=0.2)).value > 0
        return
    with pytest.raises(SolverError, match=rf"'{name}' does not know.*\('t0', 't2'\).*use one of"):
        solve(given_, name)


@pytest.mark.parametrize("kind", ["latency", "throughput", "energy", "cost"])
def test_auto_asks_nobody_who_knows_no_teams(kind: Kind) -> None:
    for batch in (1, 2):
        given_ = fork(kind=kind, batch=batch)
        asked = {stage.solver for stage in portfolio(given_)}
        assert asked and all(knows_teams(name, given_) for name in asked)


def test_stages_and_a_steady_state_that_cannot_be_laid_out_are_refused() -> None:
    with pytest.raises(SolverError, match="contiguous stages"):
        solve(fork(kind="throughput", contiguous=True))
    with pytest.raises(SolverError, match="one holds all cores of the other"):
        solve(fork(((0, 1), (1, 2), (0, 2)), "throughput"))
    assert solve(fork(((0, 1), (1, 2), (0, 2)))).value == 12.0


def scarce(limit: int, kind: Kind = "latency") -> Problem:
    """The fork, each tensor of 8 bytes, one for each branch, in a node whose memory has a limit."""
    given_ = fork(kind=kind)
    devices = tuple(replace(device, memory=limit) for device in given_.platform.devices)
    sizes = {"stem": 16, "left": 8, "right": 8, "head": 8}
    tasks = [Task(name, output_bytes=size) for name, size in sizes.items()]
    edges = [replace(edge, tensor=f"{edge.src}>{edge.dst}") for edge in given_.graph.edges]
    platform = replace(given_.platform, devices=devices)
    return replace(given_, graph=TaskGraph(tasks, edges), platform=platform)


@pytest.mark.parametrize("name", ["auto", "heft", "cpsat", "exhaustive", "annealing"])
def test_branches_take_turns_where_the_memory_of_the_node_cannot_hold_both(name: str) -> None:
    # Side by side: what both read and what both make. One by one: 24 bytes at once at most.
    assert solve(scarce(32), name, counted(time_limit=1.0)).value == 2.0 + 4.0 + 2.0
    assert solve(scarce(31), name, counted(time_limit=1.0)).value == 2.0 + 4.0 + 4.0 + 2.0
    assert solve(scarce(24), name, counted(time_limit=1.0)).value == 2.0 + 4.0 + 4.0 + 2.0
    with pytest.raises(InfeasibleError, match="24 B"):
        solve(scarce(23), name, counted(time_limit=1.0))


@pytest.mark.parametrize("name", names())
@pytest.mark.parametrize("kind", ["latency", "throughput", "energy", "cost"])
def test_a_solver_that_knows_no_memory_of_teams_says_so_only_where_it_may_be_too_small(
    name: str, kind: Kind
) -> None:
    if not knows_teams(name, fork(kind=kind)):
        return
    tight, ample = scarce(40, kind), scarce(4096, kind)
    assert knows_teams(name, ample)
    assert solve(ample, name, counted(time_limit=0.2)).value > 0
    if knows_teams(name, tight):
        assert solve(tight, name, counted(time_limit=0.2)).value > 0
        return
    with pytest.raises(SolverError, match=rf"'{name}' does not know a memory that several teams"):
        solve(tight, name)


@pytest.mark.parametrize("kind", ["energy", "cost"])
def test_where_teams_run_out_of_memory_the_quickest_schedule_is_an_answer(kind: Kind) -> None:
    answer = solve_quickest(scarce(32, kind), counted(time_limit=1.0))
    assert max(e.end for e in answer.executions) == 8.0
    late = replace(scarce(31, kind), objective=Objective(kind, latency_limit=11.9))
    for name in ("quickest", "auto"):
        with pytest.raises(InfeasibleError, match=r"the least is 12.0 s") as raised:
            solve(late, name, counted(time_limit=1.0))
        assert raised.value.proven
    with pytest.raises(SolverError, match="for latency use auto"):
        solve_quickest(scarce(24), counted(time_limit=1.0))
