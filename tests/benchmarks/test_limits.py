"""benchmarks/limits.py: what counts as kept, and that a call is measured with its answer."""

from __future__ import annotations

import pytest

from benchmarks import limits
from benchmarks.scheduling.memory import limited
from benchmarks.scheduling.runner import zoo_case


@pytest.mark.parametrize(
    ("seconds", "limit", "kept"),
    [(1.9, 1.0, True), (2.1, 1.0, False), (65.9, 60.0, True), (66.1, 60.0, False)],
)
def test_kept_is_within_a_tenth_or_a_second(seconds: float, limit: float, kept: bool) -> None:
    assert limits.is_kept(seconds, limit) == kept


def test_a_call_is_measured_with_its_answer_and_why_it_stopped() -> None:
    row = limits.measure(limited(zoo_case("layered", "sched-nvl", tasks=60), 0.5), 1.0)
    assert row["cpu_seconds"] > 0 and row["load"] >= 0 and row["kept_cpu"] in (True, False)
    assert 0 <= row["gap"] < 1
    assert row["why"][0].startswith("stopped: ")
