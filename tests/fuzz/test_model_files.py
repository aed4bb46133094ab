"""Nearly right model folders and Relay programs get an answer; and what is none is caught."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from collections.abc import Callable

import pytest

from tests.fuzz import model_folders, relay_programs
from tests.fuzz.limited import FAULT, REFUSED, TAKEN, Verdict, judge
from tvm_hetero.errors import ModelError


@pytest.mark.parametrize("attempt", [model_folders.attempt, relay_programs.attempt])
def test_there_is_an_answer_to_each(attempt: Callable[[int], Verdict]) -> None:
    counts: Counter[str] = Counter()
    for seed in range(9):
        verdict = attempt(seed)
        assert verdict.status != FAULT, f"seed {seed}: {verdict.told}"
        counts[verdict.status] += 1
    assert counts[TAKEN] and counts[REFUSED]  # neither all broken nor all whole


@pytest.mark.parametrize(
    ("attempt", "seed", "told"),
    [  # each found by the commands once
        (model_folders.attempt, 1356, "eos_token has half a character"),
        (model_folders.attempt, 1383, "the chat template cannot be read"),
        (relay_programs.attempt, 1339, "has no mapping of attributes"),
        (relay_programs.attempt, 1664, "flooat32"),
    ],
)
def test_what_was_none_once_is_one(attempt: Callable[[int], Verdict], seed: int, told: str) -> None:
    verdict = attempt(seed)
    assert verdict.status == REFUSED and told in verdict.told


def refuses(text: str) -> None:
    raise ModelError(text)


@pytest.mark.parametrize(
    ("call", "verdict"),
    [
        (lambda: None, (TAKEN, "")),
        (lambda: refuses("a line"), (REFUSED, "a line")),
        (lambda: refuses("\x1b[31mred"), (FAULT, "\x1b[31mred")),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), (FAULT, "SIGKILL")),
        (lambda: os._exit(0), (FAULT, "no answer")),
    ],
)
def test_what_is_no_answer_is_a_fault(call: Callable[[], object], verdict: tuple[str, str]) -> None:
    assert judge(call) == verdict


def test_errors_memory_and_time_that_are_not_ours_are_faults() -> None:
    assert "ZeroDivisionError" in judge(lambda: 1 // 0).told
    assert "MemoryError" in judge(lambda: bytes(1 << 28), size=1 << 27).told
    assert judge(lambda: os.read(os.pipe()[0], 1), seconds=0.05) == (FAULT, "no end")
    assert judge(lambda: sum(iter(int, 1)), seconds=0.2) == (FAULT, "no end")


def test_the_commands_count(capsys: pytest.CaptureFixture[str]) -> None:
    for command in (model_folders.main, relay_programs.main):
        assert command(["--count", "2", "--first", "7"]) == 0
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(each["harness"], each["count"], each["faults"]) for each in told] == [
        ("model_folders", 2, 0), ("relay_programs", 2, 0),
    ]  # fmt: skip
