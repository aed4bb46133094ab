"""Earliest starts of an order: few arcs of memory say what all of them do."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.draws import draws
from tests.solvers.examples import counted, problem_of
from tests.strategies import problems
from tvm_hetero.check import check_schedule
from tvm_hetero.errors import HeteroError
from tvm_hetero.platform import Device, Link, Platform
from tvm_hetero.solvers.core.options import make_schedule
from tvm_hetero.solvers.run_solver import solve
from tvm_hetero.solvers.timing import timing
from tvm_hetero.solvers.timing.decomposed_schedule import replay
from tvm_hetero.views.instance import Instance

# Hardly any time for the bound, of which nothing is asked here.
BRIEF = counted(time_limit=1e-3)


def all_arcs(plan, keys, order):
    """Every activity waits for all that gave memory back before it: the definition."""
    position = {activity: i for i, activity in enumerate(order)}
    waits: dict[int, set[int]] = {}
    binds = plan.instance.memory_binds
    for (_, device), (_, closers) in plan.users.items():
        if not binds[device]:
            continue
        gone = max(keys[c][1] for c in closers)
        last = max(position[c] for c in closers)
        openers = [min(row, key=position.__getitem__)
                   for (_, d), (row, _) in plan.users.items() if d == device]  # fmt: skip
        openers += [v for v, d in enumerate(plan.placement)
                    if d == device and plan.instance.unread[v] > 0]  # fmt: skip
        for opener in openers:
            if gone <= keys[opener][0] and last <= position[opener]:
                waits.setdefault(opener, set()).update(c for c in closers if c != opener)
    return {opener: row for opener, row in waits.items() if row}


@settings(max_examples=draws(30), deadline=None, suppress_health_check=list(HealthCheck))
@given(problem=problems(max_tasks=8, max_devices=3, memory=True, kinds=["latency"]), data=st.data())
def test_starts_are_those_of_all_arcs(problem, data):
    try:
        schedule = solve(problem, data.draw(st.sampled_from(["heft", "greedy", "single"])), BRIEF)
    except HeteroError:
        return
    known = replay(problem, schedule)
    plan, keys = known.plan, known.keys
    order = timing.activity_order(plan, keys)
    expected = all_arcs(plan, keys, order)
    few = timing.memory_arcs(plan, keys, order)
    assert few.keys() == expected.keys()
    assert all(few[a] <= expected[a] for a in few)
    starts = timing.retime(plan, keys)
    ends = [start + plan.seconds(a) for a, start in enumerate(starts)]
    for activity, row in expected.items():
        assert starts[activity] >= max(ends[c] for c in row)


def test_what_takes_no_time_waits_for_the_others_that_read_what_it_reads_last():
    # `view` reads the tensor when it has been copied away, and makes as much: both do not fit.
    devices = (Device("a", overlap=True, memory=50), Device("b", overlap=True))
    platform = Platform(devices, (Link("a", "b", bandwidth=32.0),))
    costs = {"make": {"a": 1.0}, "view": {"a": 0.0}, "far": {"b": 1.0}}
    edges = [("make", "view", 32), ("make", "far", 32)]
    problem = problem_of(costs, edges, platform, output_bytes={"make": 32, "view": 30})
    plan = timing.make_plan(Instance(problem), (0, 0, 1))
    keys = [(0.0, 1.0), (2.0, 2.0), (2.0, 3.0), (1.0, 2.0)]
    starts = timing.retime(plan, keys)
    assert starts == [0.0, 2.0, 2.0, 1.0]
    schedule = make_schedule(problem, "by-hand", *timing.to_schedule(plan, starts))
    assert check_schedule(problem, schedule) == []
