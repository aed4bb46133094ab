from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tvm_hetero.report.schedule.intervals import Interval
from tvm_hetero.report.schedule.text_gantt import text_gantt


def test_gantt_names_bars_that_are_wide_enough() -> None:
    intervals = [Interval("big", "conv", 0.0, 0.5), Interval("little", "pool", 0.5, 1.0)]
    first, second, *_ = text_gantt(intervals, ["big", "little"], 69).splitlines()
    assert first.endswith("│  50%") and second.endswith("│  50%")
    bar = first.split("│")[1]
    assert bar.startswith("[conv─") and bar.rstrip().endswith("]") and bar.endswith(" " * 20)
    assert second.split("│")[1].strip().startswith("[pool─")


def test_gantt_shades_crowded_lanes() -> None:
    busy = [Interval("d", f"t{i}", i * 1.0, i + 0.99) for i in range(500)]
    rare = [Interval("e", f"u{i}", i * 50.0, i * 50 + 0.01) for i in range(10)]
    rows = text_gantt([*busy, *rare], ["d", "e"], 80).splitlines()
    assert set(rows[0].split("│")[1]) == {"█"}
    assert rows[1].split("│")[1].count("░") == 10


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.floats(0, 10), st.floats(0, 5)), max_size=20),
    st.integers(40, 140),
)
def test_gantt_rows_have_equal_width(rows: list[tuple[str, float, float]], width: int) -> None:
    intervals = [Interval(lane, "task", s, s + n) for lane, s, n in rows]
    lines = text_gantt(intervals, ["a", "b"], width).splitlines()
    bars = {len(line.split("│")[1]) for line in lines[:2]}
    assert len(bars) == 1
