"""Usage of memory over time, kept up to date, against all lives gone through again."""

from __future__ import annotations

import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.draws import draws
from tvm_hetero.solvers.timing import memory_use
from tvm_hetero.solvers.timing.memory_use import Memory, MemoryLife

moments = st.integers(0, 60).map(float)
lives = st.tuples(moments, st.one_of(moments, st.just(math.inf)), st.integers(0, 9))
# Put in for good, tried and taken back, or ended at another time.
actions = st.lists(
    st.tuples(lives, st.sampled_from(["keep", "keep", "take back", "end"])), max_size=60
)


@pytest.fixture(autouse=True)
def short_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of at most four changes: a short history has many."""
    monkeypatch.setattr(memory_use, "_RUN", 4)


def plain_peak(memory: Memory) -> int:
    """The most bytes at one moment, by looking at every life at every beginning."""
    alive = memory.lives.values()
    return max(
        (sum(o.nbytes for o in alive if o.start <= life.start < o.end) for life in alive),
        default=0,
    )


@settings(max_examples=draws(200), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(done=actions, limit=st.integers(0, 120))
def test_overflow_is_that_of_all_lives_gone_through_again(
    done: list[tuple[tuple[float, float, int], str]], limit: int
) -> None:
    memory = Memory(limit)
    for i, ((start, length, nbytes), what) in enumerate(done):
        if what == "end" and memory.lives:
            key = next(iter(memory.lives))
            before = memory.lives[key].end
            memory.end_at(key, max(memory.lives[key].start + 1, length))
            assert memory.overflow() == max(0, plain_peak(memory) - limit)
            if memory.overflow() > 0:
                memory.end_at(key, before)
            continue
        memory.hold((i, False), MemoryLife(start, start + 1 + length, nbytes))
        over = memory.overflow()
        assert over == max(0, plain_peak(memory) - limit)
        if over > 0 or what == "take back":
            memory.drop((i, False))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ends=st.lists(moments, max_size=90), after=moments, most=st.integers(1, 9))
def test_releases_are_some_of_the_later_ends_and_the_last(
    ends: list[float], after: float, most: int
) -> None:
    memory = Memory(None)
    for i, end in enumerate(ends):
        memory.hold((i, False), MemoryLife(-1.0, end, 1))
    later = sorted({end for end in ends if end > after})
    found = memory.releases(after, most)
    assert set(found) <= set(later) and found == sorted(found)
    assert found[-1:] == later[-1:] and len(found) <= most
    if len(later) <= most and len(ends) < 4:
        assert found == later
