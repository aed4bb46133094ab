"""A disturbance that begins and ends with requests."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import pytest

from tests.online.record.test_record import command_lines
from tvm_hetero.errors import UsageError
from tvm_hetero.online.comparison.disturber import SpanDisturber
from tvm_hetero.online.comparison.spans import DisturbedSpans
from tvm_hetero.platform.host import available_cores

CORE = min(available_cores())
WAIT = 30.0


def at_work() -> list[str]:
    return [line for line in command_lines() if line.endswith(f" {os.getpid()}")]


def wait_until(true: Callable[[], bool]) -> bool:
    end = time.monotonic() + WAIT
    while time.monotonic() < end:
        if true():
            return True
        time.sleep(0.01)
    return False


def test_a_program_is_there_while_the_requests_of_a_span_end_and_not_before_or_after() -> None:
    with SpanDisturber("busy", CORE, DisturbedSpans(20, ((3, 6), (10, 12)))) as disturber:
        for count in (1, 2):
            disturber.tell(count)
        assert at_work() == []
        for begin, end in ((3, 6), (10, 12)):
            disturber.tell(begin)
            assert wait_until(lambda: len(at_work()) == 1)
            disturber.tell(end)
            assert wait_until(lambda: not at_work())
        disturber.tell(20)
    assert at_work() == []


def test_closing_ends_what_disturbs_at_once() -> None:
    disturber = SpanDisturber("busy", CORE, DisturbedSpans(20, ((3, 20),)))
    disturber.tell(3)
    assert wait_until(lambda: len(at_work()) == 1)
    disturber.close()
    disturber.close()
    assert at_work() == []


def test_spans_that_were_over_before_the_program_was_there_are_left_behind() -> None:
    with SpanDisturber("busy", CORE, DisturbedSpans(20, ((1, 2), (3, 4), (5, 6)))) as disturber:
        for count in range(1, 21):
            disturber.tell(count)
        assert wait_until(lambda: not disturber._thread.is_alive())
    assert at_work() == []


def test_what_cannot_be_started_is_refused() -> None:
    with pytest.raises(UsageError, match="no disturbance 'bussy'"):
        SpanDisturber("bussy", CORE, DisturbedSpans(2, ()))
    with pytest.raises(UsageError, match="core 100000 is not one"):
        SpanDisturber("busy", 100000, DisturbedSpans(2, ()))
