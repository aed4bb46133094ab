"""Names from files: shown without harm, turned into identifiers."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvm_hetero.util.untrusted_names import SHOWN, identifier, printable


@given(st.text(alphabet=st.characters(), max_size=200), st.integers(1, 100) | st.none())
def test_whatever_is_shown_is_one_short_printable_line(text: str, limit: int | None) -> None:
    shown = printable(text, limit)
    categories = {unicodedata.category(character) for character in shown if character != " "}
    assert not {each for each in categories if each[0] in "CZ"}, "control, bidi, escape, separator"
    assert len(shown.splitlines()) <= 1
    assert limit is None or len(shown) <= limit
    shown.encode("utf-8")


@given(st.text(max_size=60), st.integers(1, 30))
def test_what_is_cut_keeps_both_ends(text: str, limit: int) -> None:
    whole, shown = printable(text, limit=None), printable(text, limit)
    if len(whole) <= limit:
        assert shown == whole
    else:
        head, tail = shown.split("…") if "…" not in text else (shown, "")
        assert "…" in text or (whole.startswith(head) and whole.endswith(tail))
        assert "…" in shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1b[31mb", "a\\x1b[31mb"),
        ("a\nb\r\t", "a\\nb\\r\\t"),
        ("a\u202eb", "a\\u202eb"),
        ("a\u2028b", "a\\u2028b"),
        ("a\xa0b c", "a\\xa0b c"),
        ("\ud800", "\\ud800"),
        ("größe→", "größe→"),
    ],
)
def test_what_is_invisible_or_moves_the_cursor_is_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_a_megabyte_is_cut_in_the_middle_and_a_message_is_not_cut() -> None:
    assert printable("inception_3a/conv_1", 9) == "ince…nv_1"
    assert printable("a" + "x" * 1_000_000 + "z", 5) == "ax…xz"
    assert len(printable("x" * 1000)) == SHOWN
    assert printable("x" * 1000, limit=None) == "x" * 1000


def test_plain_names_are_shown_as_they_are() -> None:
    assert printable("gpu_0/data_0") == "gpu_0/data_0"
    assert printable("größe") == "größe"


@given(st.text(max_size=100), st.sets(st.text(max_size=3)))
def test_identifiers(name: str, taken: set[str]) -> None:
    made = identifier(name, taken)
    assert re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", made)
    assert made not in taken
    assert identifier(name, taken | {made}) not in taken | {made}


@pytest.mark.parametrize(
    ("name", "expected"),
    [("data_0", "data_0"), ("gpu_0/data_0", "gpu_0_data_0"), ("0", "input_0"), ("a::b.c", "a_b_c")],
)
def test_identifiers_of_common_names(name: str, expected: str) -> None:
    assert identifier(name) == expected
