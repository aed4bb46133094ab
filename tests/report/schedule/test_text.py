from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings

from tests.draws import draws
from tests.report import samples
from tests.strategies import problems
from tvm_hetero.platform import Device, Fabric, Link, Platform
from tvm_hetero.problem import Problem
from tvm_hetero.problem.schedule import SingleDevice
from tvm_hetero.report.schedule import text as plan


def test_critical_path_takes_the_fastest_devices() -> None:
    path, seconds = plan.critical_path(samples.problem())
    assert path == ["a", "b"]
    assert seconds == pytest.approx(5e-3)


@settings(max_examples=draws(30))
@given(problems())
def test_critical_path_is_a_path_and_the_longest(problem: Problem) -> None:
    path, seconds = plan.critical_path(problem)
    fastest = {
        t.id: min(problem.seconds(t.id, d, problem.batch) for d in problem.costs[t.id])
        for t in problem.tasks
    }
    for before, after in pairwise(path):
        assert after in problem.graph.successors[before]
    assert seconds == pytest.approx(sum(fastest[t] for t in path))
    longest: dict[str, float] = {}
    for task in reversed(problem.graph.topological_order):
        rest = (longest[s] for s in problem.graph.successors[task])
        longest[task] = fastest[task] + max(rest, default=0.0)
    assert seconds == pytest.approx(max(longest.values()))


def test_problem_text_names_sizes_and_work() -> None:
    text = plan.problem_text(samples.problem())
    for piece in ("fork", "latency, batch 1", "2 tasks, 5.00 ms", "8.00 ms", "13.0 ms", "1.00 KiB"):
        assert piece in text


def test_schedule_text_has_value_bound_gap_and_single_device() -> None:
    text = plan.schedule_text(samples.schedule(), samples.problem())
    for piece in ("5.00 ms", "4.00 ms", "gap 20.0 %", "8.00 ms", "1.60 times as good", "hand"):
        assert piece in text
    assert "Bottleneck: big, busy for 100 % of the time" in text
    assert "several devices work at once for 60 %" in text


@pytest.mark.parametrize(
    ("single", "words"),
    [
        (None, "nothing to compare with"),
        (SingleDevice("big", 5e-3), "the plan is not better than this one device"),
        (SingleDevice("big", 10e-3), "the plan is 2.00 times as good"),
    ],
)
def test_compare(single: SingleDevice | None, words: str) -> None:
    assert plan.compare_with_single(replace(samples.schedule(), best_single_device=single)) == words


def test_a_tiny_gap_is_not_shown_as_a_proof() -> None:
    assert plan.format_gap(0.0) == "0 %"
    assert plan.format_gap(1e-5) == "below 0.1 %"
    assert plan.format_gap(0.0234) == "2.3 %"


def test_values_of_other_objectives_are_no_seconds() -> None:
    assert plan.format_value("energy", 12.5) == "12.5 J"
    assert plan.format_value("cost", 0.25) == "0.25"
    assert plan.format_value("throughput", 0.25) == "250 ms"


def test_placement_rows_are_in_order_of_start() -> None:
    problem = samples.problem()
    assert plan.placement_rows(samples.schedule(problem), problem) == [
        ["a", "conv2d", "big", "1.00 ms"],
        ["b", "relu", "big", "4.00 ms"],
        ["c", "max_pool2d", "little", "3.00 ms"],
    ]


def test_device_and_link_tables() -> None:
    target = {"kind": "llvm", "mcpu": "znver4"}
    platform = Platform(
        (Device("big", target=target, cores=(0, 1), memory=2**30), Device("far", node="n1")),
        (Link("big", "far", 2**30, 1e-6),),
        (Fabric(None),),
    )
    assert "llvm znver4    0,1" in plan.device_table(platform)
    assert "unlimited" in plan.device_table(platform)
    assert "big → far  1.00 GiB/s  1.00 us" in plan.link_table(platform)
    assert "network" in plan.link_table(platform)
