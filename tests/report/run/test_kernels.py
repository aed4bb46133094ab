"""Tables about kernels: dearest first, what fell back is said, hostile names stay text."""

from __future__ import annotations

from tests.report import samples
from tvm_hetero.problem.implementation_choice import Choice, Timing
from tvm_hetero.report.run.kernels import (
    kernel_rows,
    kernels_json,
    kernels_summary,
    kernels_text,
)

PROBLEM = samples.problem()
SCHEDULE = samples.schedule(PROBLEM)
CHOICES = (
    Choice("relu", "big", "generic", "default", {"rule": Timing(5e-3), "default": Timing(4e-3)}),
    Choice("conv2d", "big", "packed", "rule", {"rule": Timing(1e-3, 1e-5)}, {"tuned": "it hung"}),
    Choice("max_pool2d", "big", "pool", "rule", {"rule": Timing(3e-3)}),
    Choice("conv2d", "little", "packed"),
    Choice("gone", "big", "pool"),
    Choice("relu", "elsewhere", "pool"),
)


def test_rows_are_of_this_problem_and_the_dearest_come_first() -> None:
    rows = kernel_rows(CHOICES, PROBLEM, SCHEDULE)
    assert list(rows) == ["big", "little"]
    assert [row.choice.kernel for row in rows["big"]] == ["relu", "conv2d", "max_pool2d"]
    assert [(row.placed, row.tasks) for row in rows["big"]] == [(1, 1), (1, 1), (0, 1)]


def test_the_text_names_rule_alternatives_and_refusals() -> None:
    lines = kernels_text(CHOICES, PROBLEM, SCHEDULE).splitlines()
    relu = next(line for line in lines if line.startswith("relu"))
    assert "generic (fell back)" in relu and "default" in relu and "rule 5.00 ms" in relu
    conv = next(line for line in lines if line.startswith("conv2d"))
    assert "packed" in conv and "1.0 %" in conv and "tuned refused: it hung" in conv
    assert kernels_text((), PROBLEM, SCHEDULE) == "no kernels"


def test_a_line_sums_up_a_device() -> None:
    big, little = kernels_summary(CHOICES, PROBLEM, SCHEDULE)
    assert big.startswith("big: 3 kernels; packed 1, pool 1; 1 fell back (50 % of the time)")
    assert big.endswith("default 1")
    assert little == "little: 1 kernel; packed 1"


def test_a_rate_counts_what_binds() -> None:
    row = kernel_rows(CHOICES, PROBLEM, SCHEDULE)["big"][1]
    changed = type(row)(row.choice, 1, 1, flops=2e9, bytes=1e6)
    assert changed.rate == (2000.0, "GFLOP/s")
    assert type(row)(row.choice, 1, 1, flops=1e6, bytes=1e6).rate == (1.0, "GB/s")
    assert row.rate is None, "the sample's tasks have neither"


def test_json_has_the_same_rows() -> None:
    rows = kernels_json(CHOICES, PROBLEM, SCHEDULE)
    assert [row["kernel"] for row in rows] == ["relu", "conv2d", "max_pool2d", "conv2d"]
    assert rows[0]["fell_back"] and rows[0]["seconds"] == 4e-3 and rows[0]["times"]["rule"] == 5e-3
    assert rows[-1]["seconds"] is None and rows[-1]["rate"] is None


def test_hostile_names_cannot_restyle_the_terminal() -> None:
    problem = samples.problem(evil=True)
    evil = Choice("conv2d", "big", "packed", "rule", {}, {"tuned": samples.EVIL})
    text = kernels_text([evil], problem, samples.schedule(problem))
    assert "\x1b" not in text and "\u202e" not in text
