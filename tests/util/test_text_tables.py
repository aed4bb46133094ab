from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvm_hetero.util.text_tables import counted, printable, table


def test_one_is_singular() -> None:
    assert [counted(n, "edge") for n in (0, 1, 2)] == ["0 edges", "1 edge", "2 edges"]
    assert [counted(n, "copy", "copies") for n in (1, 2)] == ["1 copy", "2 copies"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("gpu_0/data_0", "gpu_0/data_0"),
        ("a\x1b[31mb", "a\\x1b[31mb"),
        ("a\nb\r\t", "a\\nb\\r\\t"),
        ("a\u202eb", "a\\u202eb"),
        ("a\u2028b", "a\\u2028b"),
        ("größe→", "größe→"),
    ],
)
def test_printable(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(st.text(max_size=80), st.integers(2, 40))
def test_printable_is_one_line_within_the_limit(text: str, limit: int) -> None:
    shown = printable(text, limit)
    assert len(shown) <= limit
    assert len(shown.splitlines()) <= 1
    assert "\x1b" not in shown


def test_printable_keeps_both_ends() -> None:
    assert printable("inception_3a/conv_1", 9) == "ince…nv_1"


def test_table_aligns_text_left_and_figures_right() -> None:
    assert table(["name", "n"], [["a", 5], ["long", 12]]).splitlines() == [
        "name   n",
        "────  ──",
        "a      5",
        "long  12",
    ]


def test_names_that_begin_with_a_digit_are_no_figures() -> None:
    lines = table(["task", "time"], [["0.conv2d", "1.5 ms"], ["12.relu", "12 us"]]).splitlines()
    assert lines[2:] == ["0.conv2d  1.5 ms", "12.relu    12 us"]


def test_table_of_hostile_cells_keeps_its_rows() -> None:
    assert len(table(["name"], [["a\nb"], ["\x1b[2J"]]).splitlines()) == 4
