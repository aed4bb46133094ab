"""Least loads of sets that are worth so much: those of all sets, and the sets."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.draws import draws
from tests.solvers.examples import problem_of, processors
from tests.strategies import problems
from tvm_hetero.bounds.throughput.group_cuts import GroupCuts, group_cuts
from tvm_hetero.bounds.throughput.group_steps import MOST_BITS, steps_of
from tvm_hetero.bounds.throughput.priced_sets import cheapest_sets, fractional_reach, states_of
from tvm_hetero.problem import Objective, Problem
from tvm_hetero.views.instance import Instance

many = settings(max_examples=draws(60), deadline=None, suppress_health_check=list(HealthCheck))


def load_of(cuts: GroupCuts, c: int, chosen: Sequence[int]) -> float:
    """The load of a set, as the head of `group_cuts` defines it."""
    inside = set(chosen)
    load = math.fsum(cuts.rate[g, c] for g in inside)
    for tensor in cuts.tensors:
        made = tensor.maker in inside
        read = inside.intersection(tensor.readers)
        if not made and read:
            load += tensor.arrive[c]
        if made and len(read) < len(tensor.readers):
            load += tensor.leave[c]
    return float(load)


def makers_first(cuts: GroupCuts) -> bool:
    """Whether some order has every maker before its readers."""
    before = {g: {t.maker for t in cuts.tensors if g in t.readers} for g in range(len(cuts.rate))}
    while before:
        ready = [g for g, makers in before.items() if not makers & before.keys()]
        if not ready:
            return False
        for g in ready:
            del before[g]
    return True


@many
@given(
    problem=problems(max_tasks=7, max_devices=3, kinds=["throughput"]),
    prices=st.lists(st.integers(0, 5), min_size=7, max_size=7),
)
def test_least_loads_are_those_of_all_sets(problem: Problem, prices: list[int]) -> None:
    cuts = group_cuts(Instance(problem))
    count = len(cuts.rate)
    whole = np.array(prices[:count], dtype=np.int64)
    for c in range(len(cuts.kinds)):
        table = cheapest_sets(steps_of(cuts, c), cuts.rate[:, c], whole, int(whole.sum()), 1e12)
        least = [math.inf] * (int(whole.sum()) + 1)
        for flags in itertools.product((False, True), repeat=count):
            chosen = [g for g in range(count) if flags[g]]
            load, worth = load_of(cuts, c, chosen), int(whole[chosen].sum())
            for p in range(worth + 1):
                least[p] = min(least[p], load)
        for p, load in enumerate(least):
            assert table.load[p] <= load * (1 + 1e-9) + 1e-12
            if makers_first(cuts):
                assert np.isclose(table.load[p], load, rtol=1e-9)
                if load < math.inf:
                    chosen = table.read(p)
                    assert np.isclose(load_of(cuts, c, chosen), load, rtol=1e-9)
                    assert whole[chosen].sum() >= p


@many
@given(
    problem=problems(max_tasks=7, max_devices=3, kinds=["throughput"]),
    limit=st.floats(0.1, 40.0),
)
def test_no_set_within_a_load_is_worth_more_than_cut_groups(problem: Problem, limit: float) -> None:
    cuts = group_cuts(Instance(problem))
    whole = np.arange(len(cuts.rate), dtype=np.int64) + 1
    for c in range(len(cuts.kinds)):
        table = cheapest_sets(steps_of(cuts, c), cuts.rate[:, c], whole, int(whole.sum()), limit)
        reach = fractional_reach(cuts.rate[:, c], whole.astype(np.float64), limit)
        assert table.worth(limit) <= reach * (1 + 1e-9)


def test_a_wide_graph_loses_its_cheapest_tensors_only() -> None:
    # Twenty readers of twenty makers each: no order has few of them open.
    makers, readers = [f"m{i:02}" for i in range(20)], [f"r{i:02}" for i in range(20)]
    costs = {name: {"p1": 1.0, "p2": 1.0} for name in (*makers, *readers)}
    edges = [(m, r, 10 + i) for i, m in enumerate(makers) for r in readers]
    platform = processors(2, overlap=False, bandwidth=16.0)
    cuts = group_cuts(Instance(problem_of(costs, edges, platform, Objective("throughput"))))
    steps = steps_of(cuts, 0)
    widest = max(len(s.keeps) + s.opens + sum(r.kept for r in s.reads) for s in steps)
    assert 0 < widest <= MOST_BITS and states_of(steps) <= len(steps) * 2**MOST_BITS
    assert len({step.group for step in steps}) == 40
    free = cheapest_sets(steps, cuts.rate[:, 0], np.ones(40, dtype=np.int64), 40, 1e9)
    assert free.load[1] >= 1.0 and free.load[40] == 40.0
