"""Which implementation is taken, and the document that says so."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvm_hetero.errors import FormatError
from tvm_hetero.problem import IMPLEMENTATIONS
from tvm_hetero.problem.implementation_choice import (
    MARGIN,
    Choice,
    Timing,
    choices_from_dict,
    choices_to_dict,
    fastest,
)
from tvm_hetero.util.documents import canonical_json, parse_document

SECONDS = st.floats(1e-9, 1e3)
TIMINGS = st.builds(Timing, SECONDS, st.none() | st.floats(0, 1))
TIMES = st.dictionaries(st.sampled_from(IMPLEMENTATIONS), TIMINGS, min_size=1)
CHOICES = st.builds(
    Choice,
    kernel=st.text(),
    device=st.text(),
    rule=st.text(),
    implementation=st.sampled_from(IMPLEMENTATIONS),
    times=TIMES,
    refused=st.dictionaries(st.sampled_from(IMPLEMENTATIONS), st.text()),
)


def test_the_rule_stays_unless_it_is_clearly_beaten() -> None:
    assert fastest({"rule": Timing(1.0), "default": Timing(1.0 - MARGIN / 2)}) == "rule"
    assert fastest({"rule": Timing(1.0), "default": Timing(0.9)}) == "default"
    assert fastest({"rule": Timing(1.0, 0.2), "tuned": Timing(0.9, 0.0)}) == "rule"
    assert fastest({"rule": Timing(1.0, 0.0), "tuned": Timing(0.9, 0.2)}) == "rule"
    assert fastest({"rule": Timing(1.0, 9.0), "tuned": Timing(0.7, 9.0)}) == "tuned"
    assert fastest({"default": Timing(2.0), "tuned": Timing(1.9)}) == "tuned"
    assert fastest({"rule": Timing(1.0), "default": Timing(0.5), "tuned": Timing(0.4)}) == "tuned"


@given(TIMES)
def test_what_is_taken_is_measured_and_not_slower_than_the_rule(times: dict[str, Timing]) -> None:
    best = fastest(times)
    assert times[best].seconds <= times.get("rule", times[best]).seconds
    # The order in which they were measured decides nothing.
    assert best == fastest(dict(reversed(times.items())))


@given(st.lists(CHOICES, max_size=3))
def test_choices_come_back(choices: list[Choice]) -> None:
    text = canonical_json(choices_to_dict(choices))
    assert choices_from_dict(parse_document(text, "kernels.json")) == tuple(choices)


def example() -> dict[str, Any]:
    times = {"rule": Timing(1e-3, 1e-5), "default": Timing(2e-3)}
    choice = Choice("conv", "cpu0", "packed", "rule", times, {"tuned": "it crashed"})
    return choices_to_dict([choice])


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (["format"], "tvm-hetero/kernels/2", "expected .*kernels/1"),
        (["kernels"], {}, "expected a list"),
        (["kernels", 0, "rule"], 3, "kernel 0: rule: expected text, got 3"),
        (["kernels", 0, "more"], 3, "unknown key 'more'"),
        (
            ["kernels", 0, "implementation"],
            "best",
            "implementation: expected one of .*'tuned'.*got 'best'",
        ),
        (["kernels", 0, "times"], 3, "times: expected a mapping"),
        (
            ["kernels", 0, "times", "best"],
            {"seconds": 1, "spread": 0},
            "times: unknown key 'best'; known: .*tuned",
        ),
        (["kernels", 0, "times", "rule", "seconds"], 0, "expected seconds above 0, got 0"),
        (["kernels", 0, "times", "rule", "seconds"], True, "expected seconds above 0, got True"),
        (["kernels", 0, "times", "rule", "spread"], -1, "expected seconds or null, got -1"),
        (
            ["kernels", 0, "refused"],
            {"best": "slow"},
            "refused: unknown key 'best'; known: .*tuned",
        ),
    ],
)
def test_what_is_wrong_is_refused(path: list[Any], value: object, message: str) -> None:
    document = example()
    place: Any = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(FormatError, match=message):
        choices_from_dict(document, "kernels.json")
