"""The small parts: timelines, memory, scaling, and timing by order."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.solvers.examples import fork_join
from tvm_hetero.solvers.core.integer_scaling import choose
from tvm_hetero.solvers.timing.memory_use import Memory, MemoryLife
from tvm_hetero.solvers.timing.timeline import Timeline, earliest
from tvm_hetero.solvers.timing.timing import make_plan, retime
from tvm_hetero.views.instance import Instance

times = st.floats(1e-9, 1e3)


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 5)), max_size=15))
def test_timeline_never_overlaps_and_takes_back(requests: list[tuple[int, int]]) -> None:
    line = Timeline()
    taken = []
    for ready, seconds in requests:
        start = earliest([line], ready, seconds)
        assert start >= ready
        assert all(start + seconds <= a or b <= start for a, b in taken)
        line.add(start, start + seconds)
        taken.append((start, start + seconds))
    for start, end in taken:
        line.remove(start, end)
    assert (line.starts, line.ends) == ([], [])


def test_earliest_is_free_on_all() -> None:
    one, two = Timeline(), Timeline()
    one.add(0, 2)
    two.add(3, 4)
    assert earliest([one, two], 0, 1) == 2
    assert earliest([one, two], 0, 1.5) == 4
    assert earliest([], 5, 3) == 5


def test_memory_peak_is_half_open() -> None:
    memory = Memory(limit=100, permanent=10)
    memory.hold((0, False), MemoryLife(0, 1, 60))
    memory.hold((1, False), MemoryLife(1, 2, 60))
    assert (memory.peak(), memory.overflow()) == (70, 0)
    memory.drop((1, False))
    memory.hold((1, False), MemoryLife(0.5, 2, 60))
    assert memory.overflow() == 30


@given(st.lists(times, min_size=1, max_size=20))
def test_ticks_round_up_and_bounds_down(durations: list[float]) -> None:
    ticks = choose(durations, len(durations), math.fsum(durations))
    exact = math.fsum(durations)
    whole = sum(ticks.ticks(s) for s in durations)
    assert ticks.bound(whole) <= exact * (1 + 1e-9)
    assert ticks.bound(whole) >= exact * (1 - 1e-5)


def test_round_durations_are_exact() -> None:
    ticks = choose([0.1, 0.2, 1.7], 3, 2.0)
    assert ticks.per_second == pytest.approx(10.0)
    assert ticks.bound(20) == pytest.approx(2.0, rel=1e-9)


def test_order_alone_decides_the_times() -> None:
    instance = Instance(fork_join(3))
    plan = make_plan(instance, [0, 0, 1, 0, 0])
    keys = [(float(10 * v), float(10 * v + 1)) for v in range(5)]
    keys += [(5.0 + i, 5.5 + i) for i in range(len(plan.hops))]
    # in, then b0 and b2 beside the copy to b1, the copy back and out.
    assert retime(plan, keys)[:5] == [0.0, 1.0, 1.125, 2.0, 3.0]
