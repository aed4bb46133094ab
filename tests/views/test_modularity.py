"""Where a graph is cut, and which modules are equal."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.draws import draws
from tests.solvers.examples import fork_join, problem_of, processors
from tests.strategies import problems
from tvm_hetero.problem import Objective, Problem
from tvm_hetero.views.instance import Instance
from tvm_hetero.views.modularity import (
    Piece,
    articulations,
    canonical,
    cut_is_exact,
    cuts_of,
    modules_of,
    signature,
)

TWO = {"p1": 1.0, "p2": 1.0}
quickly = settings(max_examples=draws(60), deadline=None, suppress_health_check=list(HealthCheck))


def names(problem: Problem) -> list[str]:
    instance = Instance(problem)
    return [instance.tasks[v] for v in articulations(instance)]


def by_definition(instance: Instance) -> list[int]:
    """Articulations as the head of the file defines them, with sets of all ancestors."""
    before: dict[int, set[int]] = {}
    for v in instance.order:
        makers = {instance.tensors[t].maker for t in instance.inputs[v]}
        before[v] = makers.union(*(before[u] for u in makers)) if makers else set()
    position = {v: p for p, v in enumerate(instance.order)}
    found = []
    for v in instance.order:
        comparable = all(u == v or u in before[v] or v in before[u] for u in before)
        passed = any(
            position[flow.maker] < position[v] < position[w]
            for flow in instance.tensors
            for w in flow.readers
        )
        if comparable and not passed:
            found.append(v)
    return found


@pytest.mark.slow
@quickly
@given(problem=problems(max_tasks=9, batch=2))
def test_articulations_are_those_of_the_definition(problem: Problem) -> None:
    instance = Instance(problem)
    assert articulations(instance) == by_definition(instance)


def test_fork_and_join_are_articulations_and_branches_are_not() -> None:
    assert names(fork_join(3)) == ["in", "out"]


def test_a_tensor_that_passes_by_is_no_cut() -> None:
    # b is comparable to both others, but c also reads from a.
    edges = [("a", "b", 4), ("b", "c", 4), ("a", "c", 4)]
    assert names(problem_of(dict.fromkeys("abc", TWO), edges, processors(2))) == ["a", "c"]


def test_a_dead_end_beside_a_task_is_no_cut() -> None:
    edges = [("a", "b", 4), ("a", "c", 4)]
    assert names(problem_of(dict.fromkeys("abc", TWO), edges, processors(2))) == ["a"]


def test_parts_of_one_task_are_no_cut_and_whole_tasks_around_them_are() -> None:
    edges = [("a", "b", 4), ("b", "c", 4)]
    costs = dict.fromkeys("abc", TWO)
    problem = problem_of(costs, edges, processors(2), Objective("latency", 2))
    divided = Instance(problem, {"b": [[0], [1]]})
    assert [divided.tasks[v] for v in cuts_of(divided)] == ["a", "c"]
    assert len(modules_of(divided)[1].parts) == 4


@quickly
@given(problem=problems(max_tasks=8))
def test_modules_hold_every_task_once_and_no_color_reaches_across(problem: Problem) -> None:
    instance = Instance(problem)
    modules = modules_of(instance)
    home: dict[int, int] = {}
    for m, module in enumerate(modules):
        inner = module.parts[module.first is not None :]
        assert not home.keys() & set(inner)
        home |= dict.fromkeys(inner, m)
        assert module.first is None or module.parts[0] == module.first
        assert module.last is None or module.parts[-1] == module.last
    assert sorted(home) == list(range(len(instance)))
    for group in instance.groups:
        assert len({home[v] for v in group}) == 1


def test_cutting_is_not_exact_where_memory_binds() -> None:
    problem = problem_of(dict.fromkeys("ab", TWO), [("a", "b", 4)], processors(2))
    assert cut_is_exact(Instance(problem))
    tight = type(problem.platform)(
        tuple(type(d)(d.name, memory=5, overlap=True) for d in problem.platform.devices),
        problem.platform.links,
        problem.platform.fabrics,
    )
    edges = [("a", "b", 4), ("b", "c", 4)]
    assert not cut_is_exact(Instance(problem_of(dict.fromkeys("abc", TWO), edges, tight)))


@quickly
@given(problem=problems(max_tasks=7), seed=st.integers(0, 99))
def test_renamed_and_shuffled_modules_have_the_same_signature(problem: Problem, seed: int) -> None:
    """Distinct costs make the order unique; then names and positions must not matter."""
    rng = random.Random(seed)
    graph = problem.graph
    costs = {
        task.id: {d: 1.0 + i + 0.125 * k for k, d in enumerate(sorted(problem.costs[task.id]))}
        for i, task in enumerate(graph.tasks)
    }
    edges = [(e.src, e.dst, e.bytes) for e in graph.edges if e.tensor == e.src]
    shuffled = rng.sample(list(costs), len(costs))
    new = {task: f"other{i}" for i, task in enumerate(shuffled)}
    renamed = {new[task]: costs[task] for task in shuffled}
    moved = [(new[a], new[b], n) for a, b, n in rng.sample(edges, len(edges))]
    first = _signature(problem_of(costs, edges, problem.platform))
    assert first == _signature(problem_of(renamed, moved, problem.platform))
    costs[graph.tasks[0].id] = {d: s + 0.5 for d, s in costs[graph.tasks[0].id].items()}
    assert first != _signature(problem_of(costs, edges, problem.platform))


def _signature(problem: Problem) -> object:
    instance = Instance(problem)
    piece = Piece(instance, canonical(instance, instance.order))
    named = signature(piece, (False, False))[2]
    flows = [(maker, size, sorted(rest)) for maker, size, rest in named]
    return piece.seconds, sorted(flows)


@quickly
@given(problem=problems(max_tasks=7, batch=2))
def test_a_piece_of_everything_is_the_instance(problem: Problem) -> None:
    instance = Instance(problem)
    order = canonical(instance, instance.order)
    piece = Piece(instance, order)
    assert [piece.tasks[p] for p in piece.order] == [instance.tasks[v] for v in order]
    assert len(piece.tensors) == len(instance.tensors)
    assert piece.memory_binds == instance.memory_binds
    for t, flow in enumerate(piece.tensors):
        assert flow.maker < min(flow.readers)
        own = instance.tensors[piece.tensor_of[t]]
        assert (order[flow.maker], flow.nbytes) == (own.maker, own.nbytes)
        assert sorted(order[w] for w in flow.readers) == sorted(own.readers)
