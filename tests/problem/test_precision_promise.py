"""What an artifact says of its precision: written, read, and refused where it is damaged."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.report import samples
from tvm_hetero.errors import FormatError
from tvm_hetero.problem.precision_promise import PrecisionPromise
from tvm_hetero.report.run.precision import precision_table, precision_text
from tvm_hetero.util.documents import parse_document

FORMATS = Path(__file__).parents[2] / "docs" / "formats.md"
PROMISE = PrecisionPromise(
    "auto", 0.01, tasks={"0.a_bfloat16": 0.001, "2.c_bfloat16": None}, predicted=0.004,
    measured=0.005, held_out=0.006, inputs=2, held_out_inputs=1, seed=3, seconds=0.5,
    seconds_float32=1.0, gain_bound=0.5, rare=0.007, exceeding=0.0125, confidence=0.95,
    kinds=("normal", "smooth"),
)  # fmt: skip


def test_it_is_read_as_it_was_written() -> None:
    for promise in (PROMISE, PrecisionPromise("bfloat16", reason="a device has none")):
        assert PrecisionPromise.from_dict(promise.to_dict()) == promise


def test_the_example_of_the_docs_is_read() -> None:
    (text,) = re.findall(r'```json\n(\{"precision".*?)```', FORMATS.read_text(), re.S)
    promise = PrecisionPromise.from_dict(parse_document(text, "docs"))
    assert promise.tasks["9.dense_bfloat16"] == 0.0025
    assert set(promise.to_dict()) == set(parse_document(text, "docs"))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"precision": "float32"}, "precision"),
        ({"measured": -1.0}, "measured"),
        ({"accuracy": None}, "accuracy"),
        ({"inputs": "two"}, "inputs"),
        ({"tasks": {"0.a": "much"}}, "0.a"),
        ({"promised": True}, "promised"),
        ({"kinds": ["normal", 3]}, "kinds"),
        ({"exceeding": "few"}, "exceeding"),
    ],
)
def test_what_is_damaged_is_refused(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(FormatError, match=re.escape(reason)):
        PrecisionPromise.from_dict(PROMISE.to_dict() | change)


def test_people_read_what_was_allowed_and_what_was_measured() -> None:
    problem = samples.problem()
    text = precision_text(PROMISE, problem)
    assert "2 of" in text and "1.00 s in float32, 500 ms so" in text
    assert "allowed 0.01, predicted 0.004, measured 0.005 on 2 inputs, 0.006 on 1 other" in text
    assert "0.007 expected of one in a thousand" in text
    promised = (
        "promised with 95 % confidence: at most 1.2 % of random inputs (normal, smooth, equally"
    )
    assert promised in text
    given = replace(PROMISE, kinds=(), seed=None)
    assert "at most 1.2 % of inputs like those given" in precision_text(given, problem)
    alone = replace(given, held_out=None, held_out_inputs=0, rare=None, exceeding=1.0)
    assert "promised: nothing of other inputs, as none was held out" in precision_text(
        alone, problem
    )
    assert "as the model has them" in precision_table(None, problem)
    plain = PrecisionPromise("auto", 0.01, reason="device 'old' has none")
    assert "0 of" in precision_text(plain, problem) and "'old'" in precision_text(plain, problem)
