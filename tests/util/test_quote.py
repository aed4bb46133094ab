"""Values in messages: shown, cut, and never written out."""

from __future__ import annotations

import time
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvm_hetero.util.quote import quote
from tvm_hetero.util.untrusted_names import SHOWN

PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary()
VALUES = st.recursive(
    PLAIN, lambda v: st.lists(v) | st.dictionaries(st.text() | st.integers(), v), max_leaves=20
)


@given(VALUES)
def test_a_short_value_is_shown_as_python_writes_it(value: object) -> None:
    if len(repr(value)) <= SHOWN:
        assert quote(value) == repr(value)


@given(VALUES)
def test_a_long_value_is_cut_and_says_so(value: object) -> None:
    text = quote(value)
    assert len(text) <= SHOWN and text.isprintable()
    assert text == repr(value) or text.endswith("...")


def test_only_what_is_shown_is_written() -> None:
    bomb: list[object] = [1]
    for _ in range(50):
        bomb = [bomb] * 10
    start = time.process_time()
    for value in (bomb, {"a": bomb}, "x" * 10**8, b"x" * 10**8, [[["y" * 10**8]]], 10**100_000):
        assert len(quote(value)) <= SHOWN
    assert time.process_time() - start < 1


def test_a_value_that_holds_itself_is_cut() -> None:
    cycle: dict[str, object] = {}
    cycle["me"] = cycle
    assert quote(cycle, 20) == "{'me': {'me': {'m..."


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (10**400, "a number of 1329 bits"),
        (date(2020, 1, 2), "datetime.date(2020, 1, 2)"),
        (object(), "a object"),
        ((1, 2), "(1, 2)"),
        ({}, "{}"),
    ],
)
def test_what_yaml_can_say_besides(value: object, text: str) -> None:
    assert quote(value) == text
