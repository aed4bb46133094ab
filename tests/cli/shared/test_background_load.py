"""Other programs are seen, our own work is not counted as theirs."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from tvm_hetero.cli.shared.background_load import Neighbours, Reading, read_times

# It works until it has had half a second of a core, however long that takes.
SPIN = "import time\nwhile time.process_time() < 0.5: pass"
TICK = 0.05  # what is counted in ticks, on several cores, is off by a few of them


def between(before: Reading, after: Reading) -> Neighbours:
    """Neighbours between two readings."""
    return Neighbours(iter([before, *[after] * 3]).__next__)


def test_theirs_is_what_is_busy_less_what_is_ours() -> None:
    seen = between(Reading(10.0, 100.0, 5.0), Reading(12.0, 104.0, 6.0))
    assert seen.busy_cores() == pytest.approx(1.5)
    assert "Other programs kept 1.5 of" in seen.warning()


def test_the_quiet_are_not_worth_a_word() -> None:
    seen = between(Reading(10.0, 100.0, 5.0), Reading(20.0, 100.9, 5.0))
    assert seen.busy_cores() == pytest.approx(0.09) and seen.warning() == ""


@pytest.mark.parametrize(
    "after",
    [
        pytest.param(Reading(11.0, 100.4, 5.5), id="ticks say less than our own clock"),
        pytest.param(Reading(10.0, 100.4, 5.0), id="no time has passed"),
        pytest.param(Reading(11.0, 0.0, 5.5), id="the kernel says nothing"),
    ],
)
def test_what_cannot_be_known_is_nothing(after: Reading) -> None:
    assert between(Reading(10.0, 100.0, 5.0), after).busy_cores() == 0.0


def test_the_kernel_counts_a_neighbour() -> None:
    before = read_times()
    subprocess.run([sys.executable, "-c", SPIN], check=True)
    after = read_times()
    assert after.busy - before.busy > 0.5 - TICK


def test_our_own_work_is_counted_as_ours() -> None:
    before, end = read_times(), time.process_time() + 0.3
    while time.process_time() < end:
        pass
    after = read_times()
    assert after.own - before.own > 0.3 - TICK
    assert after.busy - before.busy > 0.3 - TICK
