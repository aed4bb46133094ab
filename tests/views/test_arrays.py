"""What no division of a batch can undercut."""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.draws import draws
from tests.solvers.examples import problem_of, processors
from tvm_hetero.platform import Device, Link, Platform
from tvm_hetero.problem import Cost, Objective, Problem
from tvm_hetero.problem.graph import Task, TaskGraph
from tvm_hetero.views.arrays import NODES, corners, figures_of
from tvm_hetero.views.instance import Instance


@st.composite
def tables(draw: st.DrawFn) -> Cost:
    sizes = draw(st.lists(st.integers(1, 80), min_size=1, max_size=6, unique=True))
    times = st.floats(0.0, 100.0)
    return Cost(tuple((n, draw(times)) for n in sorted(sizes)))


@settings(max_examples=draws(80), deadline=None)
@given(
    cost=tables(),
    batch=st.integers(1, 64),
    weights=st.tuples(*[st.integers(0, 10)] * 3),
)
def test_the_choices_are_below_every_size(
    cost: Cost, batch: int, weights: tuple[int, int, int]
) -> None:
    def value(point: tuple[float, ...]) -> float:
        return sum(w * x for w, x in zip(weights, point, strict=True))

    seconds = [(n, cost.seconds(n)) for n in range(1, batch + 1)]
    least = min(value((batch * s / n, s, float(n))) for n, s in seconds)
    found = min(map(value, corners(cost, batch)))
    assert found <= least * (1 + 1e-9) + 1e-300
    assert len(corners(cost, batch)) <= NODES


def test_up_to_as_many_sizes_as_choices_every_size_is_one() -> None:
    cost = Cost(((1, 1.1), (8, 1.8)))
    points = [(8 * s / n, s, float(n)) for n in range(1, 9) for s in [cost.seconds(n)]]
    assert corners(cost, 8) == tuple(points)


def test_the_choices_are_tight_for_a_start_and_a_rate() -> None:
    # 1 s a start and 0.1 s an element: the curve is a hyperbola.
    cost = Cost(((1, 1.1), (64, 7.4)))
    for weight in np.linspace(0.05, 0.95, 19):
        least = min(
            weight * 64 * s / n + (1 - weight) * s for n in range(1, 65) for s in [cost.seconds(n)]
        )
        found = min(weight * x + (1 - weight) * y for x, y, _ in corners(cost, 64))
        assert 0.97 * least <= found <= least * (1 + 1e-9)


def test_large_batches_use_the_best_rate_and_the_least_execution() -> None:
    cost = Cost(((1, 1.0), (4, 2.0)))
    assert corners(cost, 5000) == ((pytest.approx(1667.3333), 1.0, 1.0),)


def test_rate_and_least_of_a_batch() -> None:
    cost = {"a": {"p1": Cost(((1, 1.0), (4, 2.0)))}}
    problem = Problem(TaskGraph([Task("a")], []), cost, processors(1), Objective("latency", 8))
    figures = figures_of(Instance(problem))
    assert figures.rate[0, 0] == pytest.approx(2.0 + 4.0 / 3.0)
    assert figures.least[0, 0] == 1.0


def test_copies_are_of_one_element_and_over_the_best_paths() -> None:
    names = ["p1", "p2", "p3"]
    links = (Link("p1", "p2", 8.0, 1.0), Link("p2", "p3", 4.0, 0.5))
    platform = Platform(tuple(Device(name) for name in names), links)
    costs = {"a": {"p1": 1.0}, "b": {"p3": 1.0}}
    problem = problem_of(costs, [("a", "b", 8)], platform, Objective("latency", 4))
    figures = figures_of(Instance(problem))
    times = figures.copies(np.array([0]))[0]
    assert times[0, 2] == pytest.approx(1.0 + 1.0 + 0.5 + 2.0)
    assert np.isinf(times[2, 0])
    assert times[1, 1] == 0.0


@pytest.mark.parametrize("density", [0.3, 0.9])
def test_links_are_the_least_sums_along_any_path(density: float) -> None:
    """With many links one stop is the best everywhere, and nothing else is looked at."""
    rng = random.Random(7)
    for _ in range(20):
        names = [f"p{i}" for i in range(6)]
        links = {
            (a, b): Link(a, b, rng.choice((1.0, 2.0, 8.0)), rng.choice((0.0, 1.0, 3.0)))
            for a, b in itertools.permutations(names, 2)
            if rng.random() < density
        }
        platform = Platform(tuple(map(Device, names)), tuple(links.values()))
        figures = figures_of(Instance(problem_of({"a": dict.fromkeys(names, 1.0)}, [], platform)))
        ways = list(itertools.chain(*(itertools.permutations(names, n) for n in range(2, 7))))
        for a, b in itertools.permutations(range(6), 2):
            sums = [
                [links[hop] for hop in itertools.pairwise(way)]
                for way in ways
                if (way[0], way[-1]) == (names[a], names[b])
                and all(hop in links for hop in itertools.pairwise(way))
            ]
            direct = links.get((names[a], names[b]))
            sums = sums if direct is None else [[direct]]
            least = min((sum(link.latency for link in way) for way in sums), default=math.inf)
            inverse = min((sum(1 / link.bandwidth for link in way) for way in sums), default=0.0)
            assert figures.latency[a, b] == least
            assert figures.inverse[a, b] == inverse


def test_equal_devices_are_merged() -> None:
    row = {"p1": 1.0, "p2": 1.0, "p3": 3.0}
    problem = problem_of({"a": row, "b": row}, [("a", "b", 8)], processors(3, latency=2.0))
    merged = figures_of(Instance(problem)).merged
    assert merged.least.tolist() == [[1.0, 3.0], [1.0, 3.0]]
    assert merged.rate.tolist() == [[0.5, 3.0], [0.5, 3.0]]
    assert merged.latency.tolist() == [[0.0, 2.0], [2.0, 0.0]]
