"""Count cuts: no more whole tasks than fit, and never fewer than some schedule has."""

from __future__ import annotations

from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.draws import draws
from tests.solvers.examples import problem_of, processors
from tvm_hetero.bounds.latency.count_cuts import CutCounts
from tvm_hetero.bounds.latency.nested import Nested
from tvm_hetero.bounds.latency.subgraph import Subgraph
from tvm_hetero.views.arrays import figures_of
from tvm_hetero.views.instance import Instance

TIMES = st.integers(0, 6).map(float)
TASKS = st.lists(st.tuples(TIMES, TIMES, TIMES), min_size=1, max_size=5)


def in_turn(tasks: tuple[tuple[float, float, float], ...], limit: float) -> bool:
    """Whether a device can run them all, in this order."""
    now = 0.0
    for before, least, after in tasks:
        now = max(now, before) + least
        if now + after > limit:
            return False
    return True


def most_together(tasks: list[tuple[float, float, float]], limit: float) -> int:
    """The most tasks (before, least, after) that fit one after the other, by their sums."""
    for size in range(len(tasks), 0, -1):
        for some in combinations(tasks, size):
            before, after = min(b for b, _, _ in some), min(a for _, _, a in some)
            if before + sum(p for _, p, _ in some) + after <= limit:
                return size
    return 0


@settings(max_examples=draws(80), deadline=None, suppress_health_check=list(HealthCheck))
@given(tasks=TASKS, limit=st.integers(1, 20).map(float))
def test_what_a_device_can_run_keeps_the_rows(
    tasks: list[tuple[float, float, float]], limit: float
) -> None:
    counts = CutCounts.of(*np.array(tasks).T, limit)
    for size in range(1, len(tasks) + 1):
        for own in combinations(range(len(tasks)), size):
            some = [tasks[i] for i in own]
            if any(in_turn(order, limit) for order in permutations(some)):
                share = np.zeros(len(tasks))
                share[list(own)] = 1.0
                assert counts.violated(share) == []


@settings(max_examples=draws(80), deadline=None, suppress_health_check=list(HealthCheck))
@given(tasks=TASKS, limit=st.integers(1, 20).map(float))
@example(tasks=[(0.0, 1.0, 0.0), (1.0, 1.0, 1.0), (1.0, 6.0, 1.0), (1.0, 6.0, 1.0)], limit=8.0)
def test_a_row_is_no_looser_than_its_least_thresholds_say(
    tasks: list[tuple[float, float, float]], limit: float
) -> None:
    counts = CutCounts.of(*np.array(tasks).T, limit)
    for own, most in counts.violated(np.ones(len(tasks))):
        alike = [tasks[i] for i in own]
        low = min(b for b, _, _ in alike), min(a for _, _, a in alike)
        least = [(low[0], p, low[1]) for _, p, _ in alike]
        assert most <= most_together(least, limit)
        assert most < len(own)


def test_five_alike_on_two_devices_take_three_turns() -> None:
    # Half of the work takes 2.5; two and two fit below 2.99, the fifth does not.
    costs = {f"t{i}": {"p1": 1.0, "p2": 1.0} for i in range(5)}
    part = Subgraph.whole(figures_of(Instance(problem_of(costs, [], processors(2)))))
    assert Nested(part, 2.99, 10**6).bound() == 2.99
    assert Nested(part, 3.01, 10**6).bound() == pytest.approx(2.5, abs=0.02)
