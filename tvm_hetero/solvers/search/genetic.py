"""A genetic algorithm: placements and orders that are bred from each other.

L. Wang, H. J. Siegel, V. P. Roychowdhury, A. A. Maciejewski: Task matching and scheduling in
heterogeneous computing environments using a genetic-algorithm-based approach, JPDC 47(1), 1997,
doi:10.1006/jpdc.1997.1392; like F. A. Omara, M. M. Arafa (JPDC 70(1), 2010,
doi:10.1016/j.jpdc.2009.09.009), generations start from list schedules and keep their best.

In the words of the first paper, a chromosome is a matching string (the device of every group) and
a scheduling string (a topological order of the items). A generation is made of the one before:

    selection   the elite stays; parents are drawn with chances that fall with their rank by
                a constant factor (rank-based roulette wheel)                 -> `RouletteWheel`
    crossover   both strings are cut. The matching string takes its tail from the other parent;
                the scheduling string reorders its tail as in the other parent, which keeps it
                topological                                                   -> `cross`
    mutation    a random group goes to a random device, a random item to a random place
                that keeps the order topological                              -> `mutate`

The first generation is the start (the best of HEFT, greedy, the best single device), random
neighbours of it, and random candidates. The search ends with its budget, or when the elite has not
changed for 150 generations, as in the paper.
"""

from __future__ import annotations

import random
from bisect import bisect
from itertools import accumulate

from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.solvers.core.options import Options
from tvm_hetero.solvers.search.encoding import EncodedSchedule, EncodingSpace
from tvm_hetero.solvers.search.scorers import Score
from tvm_hetero.solvers.search.search_loop import Search

# The paper's figures: members, chances of crossover and mutation, generations in vain.
_MEMBERS = 50
_CROSSOVER, _MUTATION = 0.4, 0.4
_VAIN = 150
# By what factor the chance to be a parent falls from rank to rank (the best is 10 times as likely
# as the median).
_RATIO = 10 ** (-2 / _MEMBERS)
# Of the first generation, neighbours of the start, and steps that they are away from it.
_NEAR, _STEPS = 15, 5

Member = tuple[Score, EncodedSchedule]


def solve(problem: Problem, options: Options) -> Schedule:
    """The best candidate of all generations.

    Raises
    ------
    InfeasibleError
        If no candidate keeps all limits.
    SolverError
        If the C++ library is needed and missing.
    """
    search = Search(problem, options, "genetic")
    population = _first_generation(search)
    vain = 0
    while not search.over and vain < _VAIN:
        elite = population[0][0]
        population = _next_generation(search, population)
        vain = vain + 1 if population[0][0] >= elite else 0
    return search.answer()


def _first_generation(search: Search) -> list[Member]:
    candidate, score = search.start()
    population = [(score, candidate)]
    for _ in range(_NEAR):
        near = candidate
        for _ in range(_STEPS):
            near = search.space.neighbour(near, search.rng)
        _add(search, population, near)
    while len(population) < _MEMBERS and not search.over:
        _add(search, population, search.draw())
    return _by_rank(population)


def _next_generation(search: Search, population: list[Member]) -> list[Member]:
    """The elite, and children of parents drawn by rank."""
    wheel = RouletteWheel(len(population))
    children = [population[0]]
    while len(children) < _MEMBERS and not search.over:
        member = population[wheel.spin(search.rng)]
        child = member[1]
        if search.rng.random() < _CROSSOVER:
            other = population[wheel.spin(search.rng)][1]
            child = cross(search.space, child, other, search.rng)
        if search.rng.random() < _MUTATION:
            child = mutate(search.space, child, search.rng)
        if child is member[1]:
            children.append(member)
        else:
            _add(search, children, child)
    return _by_rank(children)


def _add(search: Search, population: list[Member], candidate: EncodedSchedule) -> None:
    population.append((search.score(candidate), candidate))


def _by_rank(population: list[Member]) -> list[Member]:
    """The best first; of equals the older (sorting is stable)."""
    return sorted(population, key=lambda member: member[0])


class RouletteWheel:
    """A roulette wheel with a sector for every rank, each smaller than the one before."""

    def __init__(self, ranks: int) -> None:
        self._edges = list(accumulate(_RATIO**rank for rank in range(ranks)))

    def spin(self, rng: random.Random) -> int:
        """A rank."""
        return min(bisect(self._edges, rng.random() * self._edges[-1]), len(self._edges) - 1)


def cross(
    space: EncodingSpace, one: EncodedSchedule, other: EncodedSchedule, rng: random.Random
) -> EncodedSchedule:
    """Both strings of `one` up to a cut, and what follows as in `other`."""
    groups = space.instance.groups
    placement = list(one.placement)
    for group in groups[rng.randint(0, len(groups)) :]:
        for v in group:
            placement[v] = other.placement[v]
    head = one.sequence[: rng.randint(0, space.items)]
    taken = frozenset(head)
    tail = tuple(item for item in other.sequence if item not in taken)
    return EncodedSchedule(tuple(placement), head + tail)


def mutate(space: EncodingSpace, candidate: EncodedSchedule, rng: random.Random) -> EncodedSchedule:
    """One group and one item somewhere else."""
    placement, sequence = candidate.placement, candidate.sequence
    if space.movable:
        group = rng.choice(space.movable)
        placement = space.moved(placement, group, rng.choice(space.choices(group)))
    if space.items:
        sequence = space.shifted(sequence, rng.randrange(space.items), rng) or sequence
    return EncodedSchedule(placement, sequence)
