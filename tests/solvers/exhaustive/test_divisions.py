"""Divisions of a batch: one of each kind, and with it what leaves it as it is."""

from __future__ import annotations

from itertools import pairwise, permutations, product

import pytest

from tests.fuzz.small_problems import small_problem
from tests.solvers.examples import fork_join, problem_of, processors
from tvm_hetero.problem import Objective, Problem
from tvm_hetero.solvers.exhaustive.divisions import (
    DividedBatch,
    count_divisions,
    divisions,
    image,
    partitions,
    placements,
)
from tvm_hetero.views.instance import Instance, instance_of

Division = tuple[tuple[tuple[int, ...], ...], ...]


def chain(tasks: int, batch: int) -> Problem:
    """Tasks one after the other, each on either of two devices."""
    names = [f"t{i}" for i in range(tasks)]
    edges = [(a, b, 8) for a, b in pairwise(names)]
    costs = {name: {"p1": 1.0, "p2": 1.0} for name in names}
    return problem_of(costs, edges, processors(2), Objective("latency", batch))


def orbit(problem: Problem, division: Division) -> set[Division]:
    """All that exchanging elements makes of a division."""
    group = permutations(range(problem.batch))
    return {tuple(image(choice, g) for choice in division) for g in group}


@pytest.mark.parametrize(("tasks", "batch"), [(1, 4), (2, 3), (3, 3), (5, 2), (2, 4)])
def test_every_division_is_the_image_of_exactly_one_of_them(tasks: int, batch: int) -> None:
    problem = chain(tasks, batch)
    listed = [
        tuple(d.parts[t] for t in problem.graph.topological_order) for d in divisions(problem)
    ]
    orbits = [orbit(problem, division) for division in listed]
    everything = set(product(list(partitions(range(batch))), repeat=tasks))
    assert set().union(*orbits) == everything
    assert sum(map(len, orbits)) == len(everything)


def test_partitions_are_as_many_as_bell_says() -> None:
    assert [len(list(partitions(range(n)))) for n in range(1, 6)] == [1, 2, 5, 15, 52]


@pytest.mark.parametrize("seed", range(0, 60, 3))
def test_images_carry_parts_of_a_task_to_parts_of_it_and_tensors_to_tensors(seed: int) -> None:
    problem = small_problem(seed)
    for divided in list(divisions(problem))[:20]:
        instance = Instance(problem, divided.parts)
        reads = {(f.name, f.maker, r) for f in instance.tensors for r in f.readers}
        for row in divided.images(instance):
            assert sorted(row) == list(range(len(instance))) != list(row)
            assert {(name, row[v], row[w]) for name, v, w in reads} == reads
            assert all(instance.seconds[v] == instance.seconds[row[v]] for v in range(len(row)))


def test_placements_are_counted_with_all_divisions() -> None:
    # One task of two elements on two devices: 2 whole and 4 divided, with names for the elements.
    assert placements(chain(1, 2), instance_of(chain(1, 2))) * 2 == 6
    assert placements(fork_join(2), instance_of(fork_join(2))) == 2**4
    assert count_divisions(chain(3, 2)) * 2 == 2**3


def test_a_whole_batch_has_all_symmetries_and_moves_no_part() -> None:
    whole = next(divisions(chain(2, 3)))
    assert isinstance(whole, DividedBatch) and len(whole.symmetries) == 5
    assert whole.images(Instance(chain(2, 3), whole.parts)) == []
