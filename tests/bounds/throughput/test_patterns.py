"""Patterns: never above the optimum, and by hand where whole tasks decide."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings

from tests.brute_force import brute_force
from tests.draws import draws
from tests.solvers.examples import problem_of
from tests.strategies import problems
from tvm_hetero.bounds import bound_ladder, lower_bound
from tvm_hetero.bounds.throughput.patterns import pattern_bound
from tvm_hetero.platform import Device, Fabric, Platform
from tvm_hetero.problem import Objective, Problem
from tvm_hetero.views.instance import Instance
from tvm_hetero.views.item_types import unit_flow


def layers(count: int, kind: str = "latency", *, overlap: bool = True) -> Problem:
    """A chain of layers of 3 bytes; two fast devices of 8 bytes each, a slow one for the rest."""
    names = [f"l{i}" for i in range(count)]
    fast = [Device(f"fast{i}", memory=8, overlap=overlap) for i in range(2)]
    platform = Platform(
        (*fast, Device("slow", overlap=overlap)), fabrics=(Fabric("node0", math.inf, 0.25),)
    )
    costs = {name: {"fast0": 1.0, "fast1": 1.0, "slow": 4.0} for name in names}
    edges = [(a, b, 0) for a, b in pairwise(names)]
    weights = dict.fromkeys(names, 3)
    return problem_of(costs, edges, platform, Objective(kind), weight_bytes=weights)


def test_a_fast_device_holds_two_layers_and_no_part_of_a_third():
    """4 layers on fast devices, 2 on the slow one: 4 + 8. Of the slow one's best pattern, all 6
    layers, only a third is used, so that 2 1/3 devices need 1 1/3 copies of 1/4."""
    bound = pattern_bound(Instance(layers(6)))
    assert bound == pytest.approx(12 + 1 / 3, rel=1e-6)
    assert bound <= brute_force(layers(6))


def test_the_ladder_has_it_as_a_rung():
    rungs = {rung.name: rung.value for rung in bound_ladder(layers(6))}
    assert rungs["patterns"] == pytest.approx(12 + 1 / 3, rel=1e-6)
    assert lower_bound(layers(6)) >= rungs["patterns"]


@pytest.mark.parametrize(("overlap", "expected"), [(True, 8.0), (False, 8.25)])
def test_throughput_counts_whole_layers_and_a_hop(overlap, expected):
    problem = layers(6, "throughput", overlap=overlap)
    bound = pattern_bound(Instance(problem))
    assert bound == pytest.approx(expected, rel=1e-3)
    assert bound <= brute_force(problem)


def test_memory_and_load_bind_together():
    """Three heavy layers (3 bytes, 1 s) and three slow ones (1 byte, 3 s), two devices of 6 bytes.

    Load alone allows 6 s a device. The 12 bytes fit in one way: two heavy ones, and the rest.
    """
    names = [f"l{i}" for i in range(6)]
    weights = {name: 3 if i % 2 else 1 for i, name in enumerate(names)}
    costs = {name: dict.fromkeys("ab", 1.0 if i % 2 else 3.0) for i, name in enumerate(names)}
    devices = tuple(Device(d, memory=6, overlap=True) for d in "ab")
    platform = Platform(devices, fabrics=(Fabric("node0", math.inf, 0.0),))
    edges = [(a, b, 0) for a, b in pairwise(names)]
    problem = problem_of(costs, edges, platform, Objective("throughput"), weight_bytes=weights)
    assert brute_force(problem) == 10.0
    bound = pattern_bound(Instance(problem))
    assert 10.0 * (1 - 1e-3) <= bound <= 10.0


def test_without_short_memory_it_has_nothing_to_say():
    problem = layers(6)
    roomy = tuple(replace(d, memory=None) for d in problem.platform.devices)
    problem = replace(problem, platform=replace(problem.platform, devices=roomy))
    assert pattern_bound(Instance(problem)) == 0.0


def test_branches_share_the_flow():
    costs = {name: {"a": 1.0} for name in ("in", "x", "y", "out")}
    edges = [("in", "x", 8), ("in", "y", 8), ("x", "out", 8), ("y", "out", 8), ("in", "out", 8)]
    problem = problem_of(costs, edges, Platform((Device("a"),)))
    flow = dict(zip(Instance(problem).tasks, unit_flow(Instance(problem)), strict=True))
    assert flow == pytest.approx({"in": 1.0, "x": 0.5, "y": 0.5, "out": 1.0})


@settings(max_examples=draws(36), deadline=None)
@given(problems(4, 2, kinds=("latency",), memory=True))
def test_latency_never_above_the_optimum(problem):
    optimum = brute_force(problem)
    assert pattern_bound(Instance(problem)) <= optimum * (1 + 1e-9)


@settings(max_examples=draws(36), deadline=None)
@given(problems(5, 3, kinds=("throughput",), memory=True))
def test_throughput_never_above_the_optimum(problem):
    optimum = brute_force(problem)
    assert pattern_bound(Instance(problem)) <= optimum * (1 + 1e-9)
