"""Names from models: shown without harm, turned into identifiers."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvm_hetero.util.untrusted_names import identifier, nearest, printable


@given(st.text(alphabet=st.characters(), max_size=200), st.integers(10, 100))
def test_whatever_is_shown_is_one_short_printable_line(text: str, limit: int) -> None:
    shown = printable(text, limit)
    assert shown.isprintable()
    assert len(shown) <= limit
    shown.encode("utf-8")


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


def test_nearest() -> None:
    assert nearest("data0", ["data_0", "mask"]) == "did you mean 'data_0'?"
    assert nearest("zzz", ["data_0", "mask"]) == "there is 'data_0', 'mask'."
