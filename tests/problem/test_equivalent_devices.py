"""Devices that are alike get the same costs; others keep their own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tvm_hetero.platform import Device, Platform
from tvm_hetero.problem import Cost
from tvm_hetero.problem.equivalent_devices import Seconds, average_groups, equal_devices

LLVM = {"kind": "llvm", "mcpu": "x86-64-v3"}
ONE, TWO = (Device(name, target=dict(LLVM), cores=(i,)) for i, name in enumerate(("one", "two")))
SECONDS: Seconds = {"a": {"one": 1.0, "two": 1.04}, "b": {"one": 2.0, "two": 1.98}}
RULE = Cost(((1, 1.0),))
COSTS = {task: {"one": RULE, "two": RULE} for task in SECONDS}


def test_equal_devices_get_the_mean_of_each_task() -> None:
    groups = equal_devices(Platform((ONE, TWO)), SECONDS)
    assert groups == [("one", "two")]
    even = average_groups(SECONDS, groups, COSTS)
    assert even["a"] == pytest.approx({"one": 1.02, "two": 1.02})
    assert even["b"] == pytest.approx({"one": 1.99, "two": 1.99})
    assert SECONDS["a"] == {"one": 1.0, "two": 1.04}  # as it was


@pytest.mark.parametrize(
    "other",
    [
        replace(TWO, target={"kind": "llvm", "mcpu": "x86-64-v2"}),
        replace(TWO, node="node1"),
        replace(TWO, cores=(1, 2)),
        replace(TWO, private=True),
    ],
)
def test_devices_that_are_unlike_by_the_platform(other: Device) -> None:
    assert equal_devices(Platform((ONE, other)), SECONDS) == []


def test_devices_that_are_unlike_by_what_the_network_takes() -> None:
    """P and E cores may share a target."""
    slower = {task: {"one": row["one"], "two": 1.04 * row["one"]} for task, row in SECONDS.items()}
    assert equal_devices(Platform((ONE, TWO)), slower) == []
    third, fourth = replace(ONE, name="third"), replace(ONE, name="fourth")
    for row in slower.values():
        row |= {"third": 1.01 * row["one"], "fourth": 1.05 * row["one"]}
    groups = equal_devices(Platform((ONE, TWO, third, fourth)), slower)
    assert groups == [("one", "third"), ("two", "fourth")]


def test_what_was_disturbed_does_not_count() -> None:
    busy = {"a": {"one": 1.0, "two": 1.5}, "b": {"one": 2.0, "two": 1.9}}
    even = average_groups(busy, [("one", "two")], COSTS)
    assert even == {"a": {"one": 1.0, "two": 1.0}, "b": {"one": 2.0, "two": 2.0}}


def test_devices_that_do_not_run_the_same_tasks() -> None:
    assert equal_devices(Platform((ONE, TWO)), {**SECONDS, "c": {"one": 1e-9}}) == []
    assert equal_devices(Platform((ONE, TWO)), {"a": {"one": 1.0}}) == []


def test_a_task_that_is_computed_in_two_ways_keeps_both_costs() -> None:
    costs = {**COSTS, "a": {"one": RULE, "two": replace(RULE, implementation="tuned")}}
    even = average_groups(SECONDS, [("one", "two")], costs)
    assert even["a"] == SECONDS["a"]
    assert even["b"]["one"] == even["b"]["two"]
