"""Joined intervals leave the same room as separate ones."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tvm_hetero.solvers.timing.timeline import Timeline, earliest


@given(st.lists(st.integers(0, 9), max_size=400), st.lists(st.integers(0, 30), max_size=8))
def test_what_fits_first_is_the_same(lengths: list[int], blocks: list[int]) -> None:
    apart, joined = Timeline(), Timeline()
    for at in sorted({7 * block for block in blocks}):
        apart.add(at, at + 3)
        joined.join(at, at + 3)
    for seconds in sorted(lengths, reverse=True):
        start = earliest([apart], 0.0, seconds)
        assert earliest([joined], 0.0, seconds) == start
        apart.add(start, start + seconds)
        joined.join(start, start + seconds)
    assert len(joined.starts) <= len(apart.starts)


def test_rows_of_intervals_become_few() -> None:
    line = Timeline()
    for i in [*range(0, 2000, 2), *range(1, 2000, 2)]:
        line.join(i, i + 1)
    assert len(line.starts) < 20
    assert (line.starts[0], line.ends[-1], line.fit(0, 1)) == (0, 2000, 2000)
