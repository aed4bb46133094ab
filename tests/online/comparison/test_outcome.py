"""Figures of streams whose requests end at moments that are known."""

from __future__ import annotations

from itertools import accumulate

import pytest

from tvm_hetero.errors import UsageError
from tvm_hetero.online.comparison.outcome import (
    BestRates,
    PlanChange,
    StreamOutcome,
    measure_outcome,
    rate_points,
)
from tvm_hetero.online.comparison.spans import DisturbedSpans, disturbed_once

BEST = BestRates(1.0, 0.5, "by hand")


def stream(*pieces: tuple[int, float]) -> StreamOutcome:
    """So many requests that end so many seconds apart, one piece after the other."""
    ended = tuple(accumulate(gap for count, gap in pieces for _ in range(count)))
    return StreamOutcome("test", tuple(end - 3.0 for end in ended), ended)


def test_rates_are_those_of_the_spans() -> None:
    found = measure_outcome(stream((100, 1.0), (100, 4.0), (100, 0.5)), disturbed_once(300), BEST)
    assert (found.before, found.disturbed, found.after) == (1.0, 0.25, 2.0)
    assert found.p50 == found.p99 == pytest.approx(3.0)
    assert found.recovery is None


def test_a_recovery_is_the_first_window_from_which_on_the_rate_stays_good() -> None:
    spans = disturbed_once(300, 100, 200)
    found = measure_outcome(stream((100, 1.0), (30, 4.0), (70, 2.0), (100, 1.0)), spans, BEST)
    # 20 requests in 44 s, two of which take 4 s: at least 0.9 times 0.5 a second.
    assert found.recovery == pytest.approx(28 * 4.0)


def test_good_windows_that_do_not_last_are_no_recovery() -> None:
    spans = disturbed_once(300, 100, 200)
    lucky = stream((100, 1.0), (10, 4.0), (30, 2.0), (60, 4.0), (100, 1.0))
    assert measure_outcome(lucky, spans, BEST).recovery is None


def test_of_several_disturbances_the_recovery_is_the_median() -> None:
    spans = DisturbedSpans(400, ((50, 100), (150, 200), (250, 300)))
    never, at_once = ((50, 4.0),), ((50, 2.0),)
    quiet = (50, 1.0)
    twice = stream(quiet, *at_once, quiet, *never, quiet, *at_once, (100, 1.0))
    assert measure_outcome(twice, spans, BEST).recovery == 0.0
    once = stream(quiet, *at_once, quiet, *never, quiet, *never, (100, 1.0))
    assert measure_outcome(once, spans, BEST).recovery is None


def test_a_stream_without_a_disturbance_and_one_without_a_best_have_fewer_figures() -> None:
    quiet = measure_outcome(stream((50, 1.0)), DisturbedSpans(50, ()), BEST)
    assert (quiet.before, quiet.disturbed, quiet.after) == (1.0, None, None)
    unknown = BestRates(None, None, "")
    assert measure_outcome(stream((50, 1.0)), disturbed_once(50), unknown).recovery is None


def test_points_cover_the_stream_and_hold_all_of_its_requests() -> None:
    found = rate_points(stream((90, 1.0), (13, 2.0)), 10)
    assert len(found) == 10 and found[-1][0] == 90 + 26.0
    begins = [0.0, *(end for end, _ in found[:-1])]
    counts = [rate * (end - begin) for begin, (end, rate) in zip(begins, found, strict=True)]
    assert sum(counts) == pytest.approx(103)
    assert found[0] == (11.0, 1.0) and found[-1][1] == pytest.approx(0.5)
    assert len(rate_points(stream((30, 1.0)), 100)) == 4


def test_switches_are_changes_in_which_another_plan_began() -> None:
    changes = [PlanChange(5, 1.0, "0-3@a", switched, "why") for switched in (True, False, True)]
    assert StreamOutcome("p", (0.0,), (1.0,), changes=tuple(changes)).switches == 2
    with pytest.raises(UsageError, match="entered and ended, got 1 and 0"):
        StreamOutcome("p", (0.0,), ())
