"""Earliest starts of an order: few arcs of memory say what all of them do."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.solvers.examples import counted
from tests.strategies import problems
from tvm_hetero.errors import HeteroError
from tvm_hetero.solvers.registry import solve
from tvm_hetero.solvers.timing import timing
from tvm_hetero.solvers.timing.decomposed_schedule import replay

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
            if gone <= keys[opener][0] and last < position[opener]:
                waits.setdefault(opener, set()).update(closers)
    return waits


@settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
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
