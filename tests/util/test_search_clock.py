"""The clock of searches: moved for all at once, and back."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tvm_hetero.solvers.core.deadline import Deadline
from tvm_hetero.util import search_clock
from tvm_hetero.util.search_clock import add_stop, allow_searches, now, stop_searches, stopped_by


@pytest.fixture(autouse=True)
def running() -> Iterator[None]:
    """Whatever a test does, searches may run after it."""
    yield
    allow_searches()


def test_it_is_the_machines_clock() -> None:
    before = time.monotonic()
    assert before <= now() <= time.monotonic()


def test_when_searches_are_to_stop_every_deadline_has_passed() -> None:
    far = Deadline.after(1e8)
    assert not far.passed()
    stop_searches()
    assert far.passed()
    allow_searches()
    assert not far.passed()


def test_a_call_is_told_only_while_it_runs() -> None:
    told: list[str] = []
    with stopped_by(lambda: told.append("over")):
        pass
    with stopped_by(lambda: told.append("running")):
        stop_searches()
    with stopped_by(lambda: told.append("late")):
        pass
    assert told == ["running", "late"]


def test_a_library_is_told_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_clock, "_always", [])
    told: list[bool] = []
    add_stop(told.append)
    stop_searches()
    allow_searches()
    assert told == [False, True, False]
