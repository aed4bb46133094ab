"""Storage planning: no two tensors that live together overlap, and the arena is near the bound."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from tests.executor.native_plans import planned
from tests.models import placed, two_cpus
from tvm_hetero.compiler.storage import ALIGNMENT, Lifetime, align_up, least_bytes, plan_storage
from tvm_hetero.passes.split_segments import split_segments

lifetimes = st.builds(
    lambda size, first, length: Lifetime(size, first, first + length),
    st.integers(0, 5000),
    st.integers(0, 12),
    st.integers(0, 6),
)


@given(st.lists(lifetimes, max_size=20))
def test_what_lives_together_does_not_overlap(tensors):
    offsets, total = plan_storage(tensors)
    assert (offsets, total) == plan_storage(tensors), "deterministic"
    assert all(offset >= 0 and offset % ALIGNMENT == 0 for offset in offsets)
    rows = list(zip(tensors, offsets, strict=True))
    for (a, at), (b, bt) in combinations(rows, 2):
        if a.first <= b.last and b.first <= a.last:
            assert at + a.size <= bt or bt + b.size <= at
    assert total == max((o + align_up(t.size) for t, o in rows), default=0)
    assert least_bytes(tensors) <= total <= sum(align_up(t.size) for t in tensors)


@given(st.lists(lifetimes, max_size=20))
def test_the_bound_is_the_most_that_lives_at_one_call(tensors):
    calls = range(20)
    alive = [sum(align_up(t.size) for t in tensors if t.first <= c <= t.last) for c in calls]
    assert least_bytes(tensors) == max(alive)


def test_a_chain_needs_two_buffers():
    chain = [Lifetime(100, i, i + 1) for i in range(10)]
    _, total = plan_storage(chain)
    assert total == 2 * 128


def test_a_gap_that_fits_is_filled_before_the_arena_grows():
    # Two long-lived tensors lie round a large one that ends; the small ones go where it was.
    tensors = [Lifetime(640, 0, 1), Lifetime(64, 0, 9), Lifetime(320, 2, 3), Lifetime(320, 2, 3)]
    _, total = plan_storage(tensors)
    assert total == least_bytes(tensors) == 704


def test_a_plan_has_enough_scratch_for_what_its_calls_keep_there():
    for seed in range(4):
        plan = planned(split_segments(placed(seed)), two_cpus())
        for step in plan["steps"]:
            ends = [
                arg["scratch"] + 4 * _items(arg["shape"])
                for call in step["calls"]
                for arg in call["args"]
                if "scratch" in arg
            ]
            assert align_up(max(ends, default=0)) == step["scratch"]


def _items(shape: list[int]) -> int:
    count = 1
    for dimension in shape:
        count *= dimension
    return count
