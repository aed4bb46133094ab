"""A batch pays if no more time is lost by those in it than is won by those behind."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tvm_hetero.serve.models.batch_gain import GroupTimes, pays

times = st.lists(st.floats(0.01, 10.0), min_size=1, max_size=4).map(
    lambda row: tuple(enumerate(row, 1))
)
groups = st.lists(st.builds(GroupTimes, times, st.integers(0, 3)), min_size=1, max_size=6)


def test_two_on_one_core_by_hand() -> None:
    apart = [GroupTimes(((1, 1.0),), 1)] * 2  # they end after 1 s and 2 s
    assert pays(apart, ((1, 1.49),), 1, behind=0)
    assert not pays(apart, ((1, 1.51),), 1, behind=0)  # 0.51 s later, and 0.49 s earlier
    assert pays(apart, ((1, 1.6),), 1, behind=1)  # 0.2 s are lost, and 0.4 s won
    assert not pays(apart, ((1, 1.99),), 1, behind=9)  # hardly anything is saved
    hurried = [GroupTimes(((1, 1.0),), 0)] * 2  # in time is in time
    assert pays(hurried, ((1, 1.9),), 1, behind=0)


@given(groups, times, st.integers(1, 8), st.integers(0, 20))
def test_it_never_takes_more_of_the_pool_and_a_longer_queue_never_forbids_it(
    apart: list[GroupTimes], joined: tuple[tuple[int, float], ...], places: int, behind: int
) -> None:
    if pays(apart, joined, places, behind):
        assert GroupTimes(joined).work < sum(group.work for group in apart)
        assert pays(apart, joined, places, behind + 1)


@given(groups, times, st.integers(1, 8))
def test_with_nobody_behind_the_mean_end_is_no_later(
    apart: list[GroupTimes], joined: tuple[tuple[int, float], ...], places: int
) -> None:
    if not pays(apart, joined, places, 0):
        return
    whole, begun, ends, count = GroupTimes(joined), 0.0, 0.0, 0
    for group in apart:
        begun += group.work / places
        ends += group.patient * max(group.least, begun)
        count += group.patient
    assert count * max(whole.least, whole.work / places) <= ends + 1e-6
