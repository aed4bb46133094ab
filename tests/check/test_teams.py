"""The judge on devices that share cores: each planted violation is found, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.strategies import orders, problems
from tvm_hetero.check import check_schedule, memory_peaks
from tvm_hetero.check.value import busy_times, objective_value
from tvm_hetero.platform import Device, Fabric, Platform
from tvm_hetero.problem import Cost, Kind, Objective, Problem
from tvm_hetero.problem.graph import Edge, Task, TaskGraph
from tvm_hetero.problem.memory import memory_peaks as peaks_for_solvers
from tvm_hetero.problem.schedule import Copy, Execution, Schedule
from tvm_hetero.problem.simulate import simulate


def problem(kind: Kind = "latency", *, overlap: bool = True, shared: bool = False) -> Problem:
    """x feeds y; z stands alone. Core 0, core 1, and both."""
    rows = [("one", (0,)), ("other", (1,)), ("both", (0, 1))]
    devices = tuple(
        Device(
            name, cores=cores, overlap=overlap, watts=10.0 * len(cores),
            idle_watts=1.0 * len(cores), price=3600.0 * len(cores),
        )
        for name, cores in rows
    )  # fmt: skip
    platform = Platform(devices, fabrics=(Fabric("node0", latency=1.0),), shared_cores=shared)
    graph = TaskGraph([Task("x"), Task("y"), Task("z")], [Edge("x", "y", 0)])
    costs = {t: {"one": 4.0, "other": 4.0, "both": 2.0} for t in "xyz"}
    table = {t: {d: Cost(((1, s),)) for d, s in row.items()} for t, row in costs.items()}
    return Problem(graph, table, platform, Objective(kind))


def found(given_: Problem, executions: list[Execution], copies: list[Copy]) -> list[str]:
    value = objective_value(given_, executions, copies)
    kind = given_.objective.kind
    parts = tuple(executions), tuple(copies)
    schedule = Schedule(given_.digest, "test", kind, *parts, value, 0.0)
    return [str(violation) for violation in check_schedule(given_, schedule)]


def run(task: str, device: str, start: float) -> Execution:
    return Execution(task, device, (0,), start, start + (2.0 if device == "both" else 4.0))


APART = [run("x", "both", 0.0), run("y", "both", 2.0), run("z", "one", 4.0)]


def test_teams_that_take_turns_are_valid() -> None:
    assert found(problem(), APART, []) == []


def in_one_memory(limit: int, kind: Kind = "latency", batch: int = 1) -> Problem:
    """As `problem`, where x makes 8 bytes for y, its weights are 5, and the node has a limit."""
    given_ = problem(kind)
    devices = tuple(replace(device, memory=limit) for device in given_.platform.devices)
    graph = TaskGraph([Task("x", weight_bytes=5, output_bytes=8), Task("y"), Task("z")],
                      [Edge("x", "y", 8)])  # fmt: skip
    platform = replace(given_.platform, devices=devices)
    return replace(given_, graph=graph, platform=platform, objective=Objective(kind, batch))


@pytest.mark.parametrize("kind", ["latency", "throughput"])
def test_in_the_memory_of_teams_a_tensor_lies_once_however_many_have_it(kind: Kind) -> None:
    later = 0.0 if kind == "throughput" else 5.0
    handed = [run("x", "one", 0.0), run("y", "other", later), run("z", "one", 4.0)]
    copies = [Copy("x", (0,), "one", "other", *((4.0, 5.0) if later else (0.0, 1.0)))]
    assert found(in_one_memory(13, kind), handed, copies) == []
    assert memory_peaks(in_one_memory(13, kind), handed, copies) == dict.fromkeys(
        ("one", "other", "both"), 13
    )
    over = " ".join(found(in_one_memory(12, kind), handed, copies))
    assert "rule 6" in over and "has 12 B: 1 B too little" in over


def test_in_the_memory_of_teams_the_weights_of_a_task_lie_once_whoever_runs_it() -> None:
    divided = [
        replace(run(task, device, 4.0 * turn), elements=(i,))
        for turn, task in enumerate("xyz")
        for i, device in enumerate(("one", "other"))
    ]
    assert found(in_one_memory(5 + 2 * 8, batch=2), divided, []) == []
    over = found(in_one_memory(5 + 2 * 8 - 1, batch=2), divided, [])
    assert any("1 B too little" in text for text in over)


@pytest.mark.parametrize(("start", "core"), [(0.0, "core 0"), (3.0, "core 0"), (3.999, "core 0")])
def test_a_core_under_a_team_and_on_its_own_at_once_is_refused(start: float, core: str) -> None:
    planted = [*APART[:2], run("z", "one", start)]
    text = found(problem(), planted, [])
    assert text and all(t.startswith(f"rule 2: {core} of 'node0' does two things") for t in text)


def test_devices_that_share_no_core_may_work_at_once() -> None:
    side = [run("x", "one", 0.0), run("y", "one", 4.0), run("z", "other", 0.0)]
    assert found(problem(), side, []) == []


def test_with_shared_cores_nothing_is_excluded() -> None:
    planted = [*APART[:2], run("z", "one", 0.0)]
    assert found(problem(shared=True), planted, []) == []


def test_a_copy_keeps_all_cores_of_both_its_ends_busy() -> None:
    moved = [run("x", "both", 0.0), run("y", "one", 3.0), run("z", "other", 3.0)]
    hop = [Copy("x", (0,), "both", "one", 2.0, 3.0)]
    assert found(problem(overlap=False), moved, hop) == []
    early = [*moved[:2], run("z", "other", 2.0)]
    assert [t[:14] for t in found(problem(overlap=False), early, hop)] == ["rule 4: core 1"]
    assert found(problem(overlap=True), early, hop) == []


def test_a_steady_state_excludes_too() -> None:
    given_ = problem("throughput")
    assert found(given_, APART, []) == []
    planted = [*APART[:2], run("z", "one", 0.0)]
    assert any(text.startswith("rule 2: core 0") for text in found(given_, planted, []))


def test_throughput_is_the_busiest_core() -> None:
    assert objective_value(problem("throughput"), APART, []) == 8.0
    busy = busy_times(problem("throughput"), APART, [])
    assert busy["core", "node0", 0] == 8.0 and busy["core", "node0", 1] == 4.0
    hop = [Copy("x", (0,), "both", "one", 0.0, 1.0)]
    # A core of both ends is busy once.
    assert busy_times(problem(overlap=False), APART, hop)["core", "node0", 0] == 9.0


def test_a_core_is_paid_once_and_idles_once() -> None:
    # Both cores are in use until 8 s, at 1 a second each.
    assert objective_value(problem("cost"), APART, []) == pytest.approx(16.0)
    # Busy: 2 x 2 s at 20 W, 4 s at 10 W; core 1 idles for 4 s at 1 W.
    assert objective_value(problem("energy"), APART, []) == pytest.approx(80.0 + 40.0 + 4.0)
    alone = [run("x", "one", 0.0), run("y", "one", 4.0), run("z", "one", 8.0)]
    assert objective_value(problem("cost"), alone, []) == pytest.approx(12.0)


@given(st.data(), problems(5, 4, kinds=["latency"], teams=True, colors=False))
def test_an_execution_moved_onto_a_busy_core_is_refused(
    data: st.DataObject, given_: Problem
) -> None:
    executions, copies = simulate(given_, data.draw(orders(given_)))
    rivals = given_.platform.rivals
    pairs = [
        (a, b)
        for a in executions
        for b in executions
        if b.device in rivals(a.device) and a.end > a.start and b.end > b.start
    ]
    assume(pairs)
    a, b = data.draw(st.sampled_from(pairs))
    moved = replace(a, start=b.start, end=b.start + a.end - a.start)
    planted = [moved if e is a else e for e in executions]
    assert any(text.startswith("rule 2") for text in found(given_, planted, list(copies)))


@pytest.mark.parametrize("team", [False, True], ids=["levels alone", "and a team"])
def test_levels_of_a_processor_have_its_memory_and_a_team_makes_it_the_nodes(team: bool) -> None:
    """`big` and `little` hold 4 bytes each: in a memory of 4 apart, and not where they are one."""
    devices = [
        Device(f"{name}.{level}", cores=cores, level_of=name, memory=4)
        for name, cores in (("big", (0,)), ("little", (1,)))
        for level in ("low", "high")
    ]
    if team:
        devices.append(Device("team", cores=(0, 1), memory=4))
    graph = TaskGraph([Task("x", weight_bytes=4), Task("y", weight_bytes=4)], [])
    costs = {"x": {"big.low": Cost(((1, 1.0),))}, "y": {"little.low": Cost(((1, 1.0),))}}
    both = Problem(graph, costs, Platform(tuple(devices)))
    runs = [Execution("x", "big.low", (0,), 0.0, 1.0), Execution("y", "little.low", (0,), 0.0, 1.0)]
    broken = found(both, runs, [])
    assert bool(broken) == team and all("rule 6" in text for text in broken)
    assert memory_peaks(both, runs, []) == peaks_for_solvers(both, runs, [])
