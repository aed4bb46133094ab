"""Usage of memory over time, kept up to date, against all lives gone through again."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from tvm_hetero.solvers.timing.memory_use import Memory, MemoryLife

moments = st.integers(0, 60).map(float)
lives = st.tuples(moments, st.one_of(moments, st.just(math.inf)), st.integers(0, 9))
# Put in for good, tried and taken back, or ended at another time.
actions = st.lists(
    st.tuples(lives, st.sampled_from(["keep", "keep", "take back", "end"])), max_size=600
)


def plain_peak(memory: Memory) -> int:
    """The most bytes at one moment, by looking at every life at every beginning."""
    alive = memory.lives.values()
    return max(
        (sum(o.nbytes for o in alive if o.start <= life.start < o.end) for life in alive),
        default=0,
    )


@settings(max_examples=60)
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
                memory.forget()
            else:
                memory.keep()
            continue
        memory.hold((i, False), MemoryLife(start, start + 1 + length, nbytes))
        over = memory.overflow()
        assert over == max(0, plain_peak(memory) - limit)
        if over > 0 or what == "take back":
            memory.drop((i, False))
            memory.forget()
        else:
            memory.keep()


@given(ends=st.lists(moments, max_size=400), after=moments)
def test_releases_are_the_later_ends(ends: list[float], after: float) -> None:
    memory = Memory(None)
    for i, end in enumerate(ends):
        memory.hold((i, False), MemoryLife(-1.0, end, 1))
    assert memory.releases(after) == sorted({end for end in ends if end > after})
