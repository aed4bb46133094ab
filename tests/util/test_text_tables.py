from __future__ import annotations

from tvm_hetero.util.text_tables import count_noun, format_table


def test_one_is_singular() -> None:
    assert [count_noun(n, "edge") for n in (0, 1, 2)] == ["0 edges", "1 edge", "2 edges"]
    assert [count_noun(n, "copy", "copies") for n in (1, 2)] == ["1 copy", "2 copies"]


def test_table_aligns_text_left_and_figures_right() -> None:
    assert format_table(["name", "n"], [["a", 5], ["long", 12]]).splitlines() == [
        "name   n",
        "────  ──",
        "a      5",
        "long  12",
    ]


def test_names_that_begin_with_a_digit_are_no_figures() -> None:
    lines = format_table(
        ["task", "time"], [["0.conv2d", "1.5 ms"], ["12.relu", "12 us"]]
    ).splitlines()
    assert lines[2:] == ["0.conv2d  1.5 ms", "12.relu    12 us"]


def test_table_of_hostile_cells_keeps_its_rows() -> None:
    assert len(format_table(["name"], [["a\nb"], ["\x1b[2J"]]).splitlines()) == 4


def test_a_long_cell_is_not_cut() -> None:
    assert format_table(["name"], [["x" * 200]]).splitlines()[2] == "x" * 200
