"""Costs of several elements: which sizes are kept, and tables that say what their calls take."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.models import branchy, dense, lowered, two_cpus, unit_problem
from tvm_hetero.cost_models.in_network.batched_kernels import (
    LEAST_WEIGHTS,
    MARGIN,
    SIZES,
    Together,
    find_batchable,
    on_devices,
    with_sizes,
)
from tvm_hetero.platform import Device, Platform
from tvm_hetero.problem import Cost, Problem

RULE = Cost(((1, 9.0),))


def test_a_size_that_pays_is_kept() -> None:
    # AlexNet's largest layer, us: four elements in one call take what one takes alone.
    cost = with_sizes(RULE, 4.0, {2: (4.3, 8.0), 4: (4.2, 16.0), 8: (6.1, 32.0)}, 8)
    assert cost.sizes == (1, 2, 4, 8)
    assert [cost.seconds(n) for n in (1, 2, 3, 4, 5, 8)] == [4.0, 4.3, 8.3, 4.2, 8.2, 6.1]


def test_a_size_must_beat_what_smaller_ones_make_of_it() -> None:
    measured = {2: (1.99, 2.0), 4: (2.0, 4.0), 8: (3.95, 8.0)}
    cost = with_sizes(RULE, 1.0, measured, 8)
    assert cost.sizes == (1, 4)  # 2 and 8 gain less than the margin
    assert cost.points == ((1, 1.0), (3, 3.0), (4, 2.0), (7, 5.0), (8, 4.0))


def test_a_size_counts_where_all_larger_ones_pay() -> None:
    """Of eight elements, the later ones find weights in a cache: one by one they take less."""
    measured = {2: (1.6, 2.0), 4: (3.0, 3.2), 8: (6.4, 6.0)}
    assert with_sizes(RULE, 1.0, measured, 8).sizes == (1,)
    assert with_sizes(RULE, 1.0, measured, 7).sizes == (1, 2, 4)


def test_a_size_must_beat_its_elements_apart() -> None:
    """Their weights may stay in a cache from one element to the next."""
    cost = with_sizes(RULE, 1.0, {4: (3.0, 2.9)}, 4)
    assert cost.sizes == (1,) and cost.points == ((1, 1.0),)


def test_without_a_size_a_cost_stays_a_number() -> None:
    tuned = Cost(((1, 9.0),), implementation="tuned")
    assert with_sizes(tuned, 2.0, {}, 8) == Cost(((1, 2.0),), implementation="tuned")


def test_a_size_above_the_batch_does_not_count() -> None:
    cost = with_sizes(RULE, 1.0, {2: (1.0, 2.0), 8: (1.0, 8.0)}, 7)
    assert cost.sizes == (1, 2) and cost.points[-1] == (7, 4.0)


@given(
    st.lists(st.floats(0.3, 1.2), min_size=3, max_size=3),
    st.lists(st.floats(0.5, 1.2), min_size=3, max_size=3),
    st.integers(1, 60),
)
def test_tables_are_what_calls_take(gains: list[float], apart: list[float], batch: int) -> None:
    measured = {n: (n * g, n * a) for n, g, a in zip(SIZES, gains, apart, strict=True)}
    cost = with_sizes(RULE, 1.0, measured, batch)
    call = {1: 1.0} | {n: each[0] for n, each in measured.items()}
    assert set(cost.sizes) <= {1, *(n for n in SIZES if n <= batch)}
    for n in range(1, batch + 1):
        seconds = math.fsum(call[size] for size in cost.calls_of(n))
        if n <= 16 or n == batch or n % cost.sizes[-1] == 0:
            assert cost.seconds(n) == pytest.approx(seconds)
        if n <= 8:
            assert seconds == pytest.approx(_least(n, {size: call[size] for size in cost.sizes}))
    for size in cost.sizes[1:]:
        assert all(_pays(*measured[n]) for n in SIZES if size <= n <= batch)
    assert len(cost.points) <= 19


def _pays(at_once: float, apart: float) -> bool:
    return at_once * (1 + MARGIN) < apart


def _least(n: int, calls: dict[int, float]) -> float:
    """The least that any way to divide n elements takes."""
    ways = itertools.product(*(range(n // size + 1) for size in calls))
    sizes, seconds = list(calls), list(calls.values())
    return min(
        math.fsum(k * s for k, s in zip(way, seconds, strict=True))
        for way in ways
        if sum(k * size for k, size in zip(way, sizes, strict=True)) == n
    )


def test_what_pays_on_some_device() -> None:
    at_once = {"a": {"x": 1.0, "y": 1.0}, "b": {"x": 1.0, "y": 1.0}}
    apart = {"a": {"x": 1.01, "y": 1.1}, "b": {"x": 0.9, "y": 1.01}}
    together = Together(at_once, apart)
    assert together.paying == {"a"}
    assert together.of("a", "y") == (1.0, 1.1) and together.of("c", "y") is None
    assert Together(at_once, {"a": {"x": 2.0}}).paying == {"a"}
    assert Together(at_once, {"a": {"x": 2.0}}).of("a", "y") is None


def test_fewer_elements_apart() -> None:
    """The first one takes what it takes by itself, all others the same."""
    apart = Together({}, {"a": {"x": 4.0 + 7 * 3.0}})
    single = {"a": {"x": 4.0, "y": 9.0}, "b": {"x": 1.0}}
    assert apart.apart_with(2, 8, single) == {"a": {"x": pytest.approx(7.0)}}
    assert apart.apart_with(4, 8, single) == {"a": {"x": pytest.approx(13.0)}}
    assert apart.apart_with(8, 8, single) == apart.apart


def test_candidates_have_many_weights() -> None:
    platform = two_cpus()
    mod = lowered(dense(512, 512, 48, 8), platform)
    problem = unit_problem(mod, platform)
    sizes = {task.id: task.weight_bytes for task in problem.tasks}
    heavy = {task for task, nbytes in sizes.items() if nbytes >= LEAST_WEIGHTS}
    assert len(heavy) == 1 and len(sizes) == 3
    assert find_batchable(mod, problem) == heavy
    assert on_devices(heavy, problem) == {"big": heavy, "little": heavy}
    mod = lowered(branchy(), platform)
    assert not find_batchable(mod, unit_problem(mod, platform))


def test_candidates_read_their_weights_fast() -> None:
    """What takes ten times as long for as many bytes does not take it for reading them."""
    platform = two_cpus()
    mod = lowered(dense(512, 512, 1024), platform)
    problem = unit_problem(mod, platform)
    first, second = problem.costs
    assert find_batchable(mod, problem) == {first, second}
    slow = {**problem.costs, first: {"big": Cost(((1, 1e-2),)), "little": RULE}}
    assert find_batchable(mod, Problem(problem.graph, slow, platform)) == {second}


def test_candidates_are_of_cpu_devices_that_run_the_task() -> None:
    platform = two_cpus()
    mod = lowered(dense(512, 512), platform)
    problem = unit_problem(mod, platform)
    (task,) = problem.costs
    gpu = Device("gpu", target={"kind": "cuda"})
    wider = Platform((*platform.devices, gpu), platform.links)
    mixed = Problem(problem.graph, {task: {"little": RULE, "gpu": RULE}}, wider)
    assert find_batchable(mod, mixed) == {task}
    assert on_devices({task}, mixed) == {"big": frozenset(), "little": {task}}
    assert not find_batchable(mod, Problem(problem.graph, {task: {"gpu": RULE}}, wider))
