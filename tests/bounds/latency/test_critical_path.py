"""Critical paths: against the plain recursion, and with cuts."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from tests.draws import draws
from tests.solvers.examples import problem_of, processors, topcuoglu
from tests.strategies import problems
from tvm_hetero.bounds.latency import heads_tails
from tvm_hetero.bounds.latency.critical_path import (
    Cuts,
    articulations,
    best_chain,
    critical_path,
    fastest_path,
    heads_and_tails,
    module_table,
)
from tvm_hetero.problem import Problem
from tvm_hetero.views import modularity
from tvm_hetero.views.arrays import figures_of
from tvm_hetero.views.instance import Instance


def plain_heads_and_tails(instance: Instance) -> tuple[heads_tails.Table, heads_tails.Table]:
    """Those of an instance, with the copies of the judge."""
    return heads_tails.heads_and_tails(
        instance,
        lambda v, d: instance.seconds[v][d],
        lambda t: instance.copies(instance.tensors[t].nbytes),
    )


@settings(max_examples=draws(36), deadline=None, suppress_health_check=list(HealthCheck))
@given(problem=problems(max_tasks=10, multi_hop=False))
def test_heads_and_tails_are_those_of_the_plain_recursion(problem: Problem) -> None:
    instance = Instance(problem)
    plain = plain_heads_and_tails(instance)
    figures = figures_of(instance)
    for own, expected in zip(heads_and_tails(figures), plain, strict=True):
        for i, v in enumerate(figures.tasks):
            for d in instance.devices[v]:
                assert own[i, d] == pytest.approx(expected[v][d])


@settings(max_examples=draws(36), deadline=None, suppress_health_check=list(HealthCheck))
@given(problem=problems(max_tasks=10, exact=False))
def test_the_critical_path_of_tables_is_the_plain_formula_to_the_last_digit(
    problem: Problem,
) -> None:
    instance = Instance(problem)
    head, tail = plain_heads_and_tails(instance)
    assert critical_path(head, tail) == max(
        min(head[v][d] + tail[v][d] for d in instance.devices[v]) for v in range(len(instance))
    )


def test_the_two_tails_sum_in_another_order_and_so_differ_in_the_last_digit() -> None:
    # a copies (0.1 s) to b (0.2 s), then c (0.3 s): why there are two functions for them.
    costs = {"a": {"p1": 1.0}, "b": {"p2": 0.2}, "c": {"p2": 0.3}}
    problem = problem_of(costs, [("a", "b", 0), ("b", "c", 0)], processors(2, latency=0.1))
    instance = Instance(problem)
    assert plain_heads_and_tails(instance)[1][0][0] == (0.1 + 0.2) + 0.3
    assert heads_and_tails(figures_of(instance))[1][0, 0] == (0.3 + 0.2) + 0.1
    assert (0.1 + 0.2) + 0.3 != (0.3 + 0.2) + 0.1


@settings(max_examples=draws(36), deadline=None, suppress_health_check=list(HealthCheck))
@given(problem=problems(max_tasks=10))
def test_the_chain_of_modules_is_no_less_than_the_critical_path(problem: Problem) -> None:
    figures = figures_of(Instance(problem))
    at = articulations(figures)
    assert [figures.tasks[i] for i in at] == modularity.articulations(figures.instance)
    path = critical_path(*heads_and_tails(figures))
    chain, way = best_chain(module_table(figures, Cuts.of(figures, at)))
    # Not less: one device for the cut task serves both sides, and each side's longest path.
    assert chain >= path * (1 - 1e-9) or path == math.inf
    assert len(way) == Cuts.of(figures, at).count


def test_fastest_path_of_the_paper_example() -> None:
    # n1 n2 n9 n10 with the least time of each: 9 + 13 + 12 + 7.
    assert fastest_path(figures_of(Instance(topcuoglu()))) == 41.0


def test_entries_know_where_their_ends_are() -> None:
    row = {"p1": 1.0, "p2": 3.0}
    costs = dict.fromkeys("abc", row)
    edges = [("a", "b", 0), ("b", "c", 0)]
    problem = problem_of(costs, edges, processors(2, latency=10.0))
    figures = figures_of(Instance(problem))
    table = module_table(figures, Cuts.of(figures, articulations(figures)))
    assert table.shape == (3, 2, 2)
    assert table[1].tolist() == [[1.0, 13.0], [11.0, 3.0]]
    assert np.array_equal(table[0], [[1.0, 3.0], [1.0, 3.0]])
