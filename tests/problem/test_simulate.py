"""The simulator: greedy times by hand, periods, wrong orders, and the optimum over all orders."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.brute_force import brute_force
from tests.draws import draws
from tests.strategies import Step, orders, problems
from tvm_hetero.check import check_schedule
from tvm_hetero.check.value import objective_value
from tvm_hetero.errors import PlatformError, UsageError
from tvm_hetero.platform import Device, Fabric, Link, Platform
from tvm_hetero.problem import Cost, Objective, Problem
from tvm_hetero.problem.graph import Edge, Task, TaskGraph
from tvm_hetero.problem.schedule import Copy, Execution, Schedule
from tvm_hetero.problem.simulate import simulate

ONE = Cost(((1, 1.0),))


def fork(*devices: Device, objective: Objective | None = None, exclusive: bool = False) -> Problem:
    """s makes 4 bytes for p and q; every link moves 2 bytes a second."""
    graph = TaskGraph([Task("s"), Task("p"), Task("q")], [Edge("s", "p", 4), Edge("s", "q", 4)])
    platform = Platform(devices, (), (Fabric("node0", 2.0, 0.0, exclusive),))
    costs = {task: {device.name: ONE for device in devices} for task in graph.index}
    return Problem(graph, costs, platform, objective or Objective())


def spans(problem: Problem, steps: list[Step]) -> list[tuple[str, float, float]]:
    executions, copies = simulate(problem, steps)
    rows = [(e.task, e.start, e.end) for e in executions]
    return rows + [(f"{c.src}>{c.dst}", c.start, c.end) for c in copies]


STEPS: list[Step] = [("s", "a", (0,)), ("p", "b", (0,)), ("q", "b", (0,))]


def test_a_hop_is_made_once_and_blocks_its_ends() -> None:
    assert spans(fork(Device("a"), Device("b")), STEPS) == [
        ("s", 0, 1),
        ("p", 3, 4),
        ("q", 4, 5),
        ("a>b", 1, 3),
    ]


def test_work_is_appended_in_the_order_given() -> None:
    """q on a comes after the copy for p although a was free before it."""
    steps: list[Step] = [STEPS[0], STEPS[1], ("q", "a", (0,))]
    assert spans(fork(Device("a"), Device("b")), steps)[2] == ("q", 3, 4)
    assert spans(fork(Device("a", overlap=True), Device("b")), steps)[2] == ("q", 1, 2)


def test_copies_at_once_unless_something_is_exclusive() -> None:
    engines = [Device(name, overlap=True) for name in "abc"]
    steps: list[Step] = [STEPS[0], ("p", "b", (0,)), ("q", "c", (0,))]
    assert [row[1:] for row in spans(fork(*engines), steps)[3:]] == [(1, 3), (1, 3)]
    # An exclusive link carries one copy at a time; these are two links.
    assert [row[1:] for row in spans(fork(*engines, exclusive=True), steps)[3:]] == [(1, 3), (1, 3)]
    no_engine = [Device("a"), *engines[1:]]
    assert [row[1:] for row in spans(fork(*no_engine), steps)[3:]] == [(1, 3), (3, 5)]


def test_an_exclusive_link_is_taken_in_turn() -> None:
    engines = [Device(name, overlap=True) for name in "ab"]
    batch = fork(*engines, objective=Objective("latency", 2), exclusive=True)
    steps: list[Step] = [
        ("s", "a", (0,)),
        ("s", "a", (1,)),
        ("p", "b", (0, 1)),
        ("q", "a", (0, 1)),
    ]
    assert [(c.elements, c.start, c.end) for c in simulate(batch, steps).copies] == [
        ((0,), 1, 3),
        ((1,), 3, 5),
    ]


def test_hops_are_stored_and_forwarded() -> None:
    graph = TaskGraph([Task("s"), Task("p"), Task("q")], [Edge("s", "p", 4), Edge("s", "q", 4)])
    platform = Platform(
        (Device("a", overlap=True), Device("hub"), Device("c")),
        (Link("a", "hub", 2.0, 1.0), Link("hub", "c", 4.0)),
    )
    costs = {"s": {"a": ONE}, "p": {"c": ONE}, "q": {"hub": ONE}}
    problem = Problem(graph, costs, platform)
    # The hub's copy is made on the way to c and serves q as well, when the hub has sent it on.
    steps: list[Step] = [("s", "a", (0,)), ("p", "c", (0,)), ("q", "hub", (0,))]
    assert spans(problem, steps) == [
        ("s", 0, 1),
        ("p", 5, 6),
        ("q", 5, 6),
        ("a>hub", 1, 4),
        ("hub>c", 4, 5),
    ]


def test_a_period_packs_executions_and_copies() -> None:
    steady = fork(Device("a"), Device("b"), objective=Objective("throughput"))
    executions, copies = simulate(steady, STEPS)
    assert executions == (
        Execution("s", "a", (0,), 0.0, 1.0),
        Execution("p", "b", (0,), 0.0, 1.0),
        Execution("q", "b", (0,), 1.0, 2.0),
    )
    assert copies == (Copy("s", (0,), "a", "b", 2.0, 4.0),)
    assert objective_value(steady, executions, copies) == 4.0


def test_a_period_has_no_precedence() -> None:
    """What is copied was made in an earlier period, so the hop need not wait for s."""
    engines = [Device(name, overlap=True) for name in "ab"]
    steady = fork(*engines, objective=Objective("throughput"))
    steady = replace(steady, costs={**steady.costs, "p": {"b": Cost(((1, 9.0),))}})
    assert simulate(steady, STEPS).copies == (Copy("s", (0,), "a", "b", 0.0, 2.0),)


def test_hops_in_a_triangle_cannot_be_packed_but_stay_inside() -> None:
    """Three hops that exclude each other pairwise, loads of two: the period is two."""
    names = "abc"
    tasks = [Task(f"s{n}") for n in names] + [Task(f"r{n}") for n in names]
    edges = [Edge(f"s{n}", f"r{m}", 1) for n, m in zip(names, "bca", strict=True)]
    costs = {f"{kind}{n}": {n: Cost(((1, 0.0),))} for kind in "sr" for n in names}
    platform = Platform(tuple(Device(n) for n in names), (), (Fabric("node0", 1.0),))
    problem = Problem(TaskGraph(tasks, edges), costs, platform, Objective("throughput"))
    steps = [(task.id, task.id[1], (0,)) for task in tasks]
    executions, copies = simulate(problem, steps)
    assert objective_value(problem, executions, copies) == 2.0
    assert max(copy.end for copy in copies) == 2.0


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([STEPS[1], STEPS[0], STEPS[2]], "not topological: task 'p' comes before 's'"),
        (STEPS[:2], "task 'q': element 0 is in no step"),
        ([*STEPS, STEPS[0]], "task 's': element 0 is given twice"),
        ([*STEPS, ("qq", "a", (0,))], "there is no task 'qq'"),
        ([*STEPS[:2], ("q", "gpu", (0,))], "task 'q' cannot run on 'gpu'; it can on a, b"),
        ([*STEPS[:2], ("q", "a", (1,))], "element 1 is outside the batch of 1"),
        ([*STEPS[:2], ("q", "a", ())], "a step of task 'q' has no elements"),
    ],
)
def test_wrong_steps(steps: list[Step], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        simulate(fork(Device("a"), Device("b")), steps)


def test_no_way_to_a_reader() -> None:
    problem = fork(Device("a"), Device("b"))
    cut = Problem(problem.graph, problem.costs, Platform(problem.platform.devices))
    with pytest.raises(PlatformError, match="no path of links leads from 'a' to 'b'"):
        simulate(cut, STEPS)


@given(st.data(), problems(kinds=["latency", "throughput"], batch=3))
def test_the_same_steps_give_the_same_times(data: st.DataObject, problem: Problem) -> None:
    steps = data.draw(orders(problem))
    assert simulate(problem, steps) == simulate(problem, iter(steps))


@given(st.data(), problems(kinds=["throughput"], max_devices=2, batch=3, multi_hop=False))
def test_two_devices_always_fit_into_their_period(data: st.DataObject, problem: Problem) -> None:
    """Then nothing of the period lies beside other work, copies included."""
    executions, copies = simulate(problem, data.draw(orders(problem)))
    value = objective_value(problem, executions, copies)
    as_latency = problem.with_objective(Objective("latency", problem.batch))
    schedule = Schedule(as_latency.digest, "test", "latency", executions, copies, value, 0.0)
    texts = [str(violation) for violation in check_schedule(as_latency, schedule)]
    # Precedence (rules 3 and 5) means nothing here; exclusion (2, 4, shared links) must hold.
    wrong = [t for t in texts if t.startswith(("rule 2", "rule 4")) or "is shared" in t]
    assert wrong == []


def _all_orders(problem: Problem, placement: dict[str, str]) -> Iterator[list[Step]]:
    before = problem.graph.predecessors
    for order in itertools.permutations(problem.graph.index):
        done: set[str] = set()
        if all(set(before[t]) <= done and not done.add(t) for t in order):  # type: ignore[func-returns-value]
            yield [(task, placement[task], (0,)) for task in order]


@settings(max_examples=draws(30))
@given(problems(4, 3, colors=False, overlap=True, exclusive=False))
def test_the_best_order_is_the_optimum_where_copies_do_not_meet(problem: Problem) -> None:
    """With copy engines everywhere and no exclusive links only the executions' order matters."""
    devices = tuple(Device(d.name, overlap=True) for d in problem.platform.devices)
    free = Platform(devices, problem.platform.links, problem.platform.fabrics)
    problem = Problem(problem.graph, problem.costs, free)
    best = math.inf
    places = [problem.devices_for(task) for task in problem.graph.index]
    for choice in itertools.product(*places):
        for steps in _all_orders(problem, dict(zip(problem.graph.index, choice, strict=True))):
            try:
                timed = simulate(problem, steps)
            except PlatformError:
                break
            best = min(best, objective_value(problem, *timed))
    assert best == brute_force(problem)


def test_a_long_chain() -> None:
    """Twenty thousand tasks, alternating: the times are the sums."""
    count = 20_000
    tasks = [Task(f"t{i}") for i in range(count)]
    edges = [Edge(f"t{i}", f"t{i + 1}", 4) for i in range(count - 1)]
    platform = Platform((Device("a"), Device("b")), (), (Fabric("node0", 4.0),))
    costs = {task.id: {"a": ONE, "b": ONE} for task in tasks}
    problem = Problem(TaskGraph(tasks, edges), costs, platform)
    executions, copies = simulate(problem, [(f"t{i}", "ab"[i % 2], (0,)) for i in range(count)])
    assert executions[-1].end == 2 * count - 1
    assert len(copies) == count - 1
    schedule = Schedule(problem.digest, "test", "latency", executions, copies, 2.0 * count - 1, 0.0)
    assert check_schedule(problem, schedule) == []
