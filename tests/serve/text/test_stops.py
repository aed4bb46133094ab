"""Stop texts: found wherever a text is cut, and no letter of them is told."""

from __future__ import annotations

from itertools import pairwise

import hypothesis.strategies as st
from hypothesis import given, settings

from tests.draws import draws
from tvm_hetero.serve.text.stops import StopScanner

letters = st.text("ab", max_size=24)
stop_texts = st.lists(st.text("ab", min_size=1, max_size=5), max_size=3)


def cut(text: str, stops: list[str]) -> tuple[str, bool]:
    """The text up to the stop text that is complete first, of those the longest."""
    for end in range(1, len(text) + 1):
        ending = [stop for stop in stops if text[:end].endswith(stop)]
        if ending:
            return text[: end - max(map(len, ending))], True
    return text, False


@settings(max_examples=draws(300), deadline=None)
@given(letters, stop_texts, st.lists(st.integers(0, 24)))
def test_what_comes_out_does_not_depend_on_how_the_text_was_cut(text, stops, cuts):
    scanner, told = StopScanner(stops), ""
    places = sorted({0, len(text), *(min(place, len(text)) for place in cuts)})
    for begin, end in pairwise(places):
        told += scanner.push(text[begin:end])
        whole, is_hit = cut(text[:end], stops)
        assert whole.startswith(told)
        assert scanner.is_hit == is_hit
    if not scanner.is_hit:
        told += scanner.finish()
    assert told == cut(text, stops)[0]


def test_only_what_may_become_a_stop_text_waits():
    scanner = StopScanner(["END"])
    assert scanner.push("the E") == "the "
    assert scanner.push("N") == ""
    assert scanner.push("T and") == "ENT and"
    assert scanner.push(" EN") == " "
    assert scanner.finish() == "EN"
