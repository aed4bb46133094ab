"""The bottleneck of made-up runs."""

from __future__ import annotations

import math

from tests.report.run.test_predicted_vs_measured import MS, Step
from tvm_hetero.report.run.bottleneck import warn_of_bottleneck

RUN = [
    Step("a", "big", 0.0, 6 * MS),
    Step("b", "little", 2 * MS, 5 * MS),
    Step("c", "big", 7 * MS, 10 * MS),
    Step("x: big > little", "big>little", 6 * MS, 7 * MS, "copy"),
    Step("skipped", "little", math.nan, math.nan),
]


def test_the_busiest_device_and_its_longest_segment() -> None:
    assert warn_of_bottleneck(RUN, ["big", "little"]) == (
        "Bottleneck: big, busy for 90 % of 10.0 ms; its longest segment takes 6.00 ms (a). Busy "
        "beside it: little 30 %; several at once: 30 %."
    )


def test_shares_of_a_period_of_a_pipeline() -> None:
    text = warn_of_bottleneck(RUN, ["big", "little"], 9 * MS)
    assert text.startswith("Bottleneck: big, busy for 100 % of 9.00 ms") and "once" not in text


def test_a_link_may_be_the_bottleneck() -> None:
    run = [*RUN, Step("y: big > little", "big>little", 7 * MS, 20 * MS, "copy")]
    text = warn_of_bottleneck(run, ["big", "little"])
    assert text.startswith("Bottleneck: big>little") and "longest copy takes 13.0 ms" in text


def test_nothing_ran() -> None:
    assert warn_of_bottleneck([RUN[-1]], ["big", "little"]) == "Nothing ran."
