"""What list schedulers keep: a probe says what a placement does, a timeline what a plain list."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.draws import draws
from tests.strategies import problems
from tvm_hetero.problem import Problem
from tvm_hetero.solvers.lists.list_scheduler import ListScheduler
from tvm_hetero.solvers.lists.undo_log import Booking
from tvm_hetero.solvers.timing.timeline import Timeline
from tvm_hetero.views.instance import Instance

times = st.one_of(st.integers(0, 400).map(float), st.floats(0.0, 400.0))


def plain_fit(taken: list[tuple[float, float]], ready: float, seconds: float) -> float:
    """The earliest fit, looking at every interval."""
    start = ready
    for a, b in sorted(taken):
        if b > start and a < start + seconds:
            start = b
    return start


@settings(max_examples=draws(50))
@given(
    requests=st.lists(st.tuples(times, st.sampled_from([0.0, 0.5, 1.0, 1.0, 7.0])), max_size=400),
    undone=st.sets(st.integers(0, 399)),
)
def test_timeline_finds_the_first_gap(
    requests: list[tuple[float, float]], undone: set[int]
) -> None:
    line = Timeline()
    taken: list[tuple[float, float]] = []
    for i, (ready, seconds) in enumerate(requests):
        start = line.fit(ready, seconds)
        assert start == plain_fit(taken, ready, seconds)
        line.add(start, start + seconds)
        taken.append((start, start + seconds))
        if i in undone:
            line.remove(*taken.pop())
    assert line.starts == sorted(start for start, _ in taken)
    assert line.ends == sorted(end for _, end in taken)


@given(problem=problems(max_tasks=7, exact=False), data=st.data())
def test_probe_says_when_a_placement_would_end(problem: Problem, data: st.DataObject) -> None:
    instance = Instance(problem)
    booking = Booking(instance)
    for v in instance.order:
        home = booking.group_home.get(instance.group_of[v])
        for d in instance.devices[v] if home is None else (home,):
            probed = booking.probe(v, d)
            before = list(booking.hops)
            placed = booking.place(v, d, 0.0)
            booking.roll_back()
            assert probed == placed
            assert booking.hops == before
        choices = [d for d in instance.devices[v] if booking.probe(v, d) is not None]
        device = data.draw(st.sampled_from(choices)) if home is None and choices else home
        if device is None or booking.place(v, device, 0.0) is None:
            return
        booking.undo.clear()


@given(problem=problems(max_tasks=7, memory=True))
def test_all_that_is_booked_can_be_taken_back(problem: Problem) -> None:
    instance = Instance(problem)
    scheduler = ListScheduler(instance, set(range(len(instance.names))))
    for v in instance.order:
        scheduler.place(v, 0, 0.0)
    scheduler.roll_back()
    assert scheduler.place_of == [None] * len(instance)
    assert not any(line.starts for line in scheduler.lines.values())
    assert all(not m.lives and m.permanent == 0 == m.total for m in scheduler.memory)
    assert not scheduler.hops and not scheduler.loaded and not scheduler.group_home
