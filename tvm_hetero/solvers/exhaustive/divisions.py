"""All ways to divide a batch over executions, one of each kind, and how many placements that makes.

A division says for every task into which sets its B elements are divided. Elements can be
exchanged: a permutation of them turns a division into one that is as good, so one of each orbit is
enough. Tasks are divided in turn; G is the group of permutations that leave alone what has been
divided so far. Of the partitions of the next task into sets one of each orbit of G is taken, the
smallest; what leaves it alone, too, is the next G:

    G(0) = all permutations
    G(i + 1) = {g in G(i): g(partition of task i) = partition of task i}

The last G are the symmetries that the division has left: they carry placements into placements.

Sizes. k devices and a task alone: sum over j of S(B, j) k^j placements, with Stirling's numbers S
of partitions into j sets (a Touchard polynomial). Tasks of one color share the device: k times the
number of partitions of each. The product over all, by B!, is about what a complete search may have
to look at.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations

from tvm_hetero.problem.model import Problem
from tvm_hetero.views.instance import Instance

Partition = tuple[tuple[int, ...], ...]
_Permutation = tuple[int, ...]


@dataclass(frozen=True)
class DividedBatch:
    """A division and what leaves it as it is: permutations of elements, without the identity."""

    parts: dict[str, Partition]
    symmetries: tuple[_Permutation, ...]

    def images(self, instance: Instance) -> list[tuple[int, ...]]:
        """For each symmetry the part of `instance` that each part becomes; others than itself."""
        number = {
            (task, own): v
            for v, (task, own) in enumerate(zip(instance.tasks, instance.elements, strict=True))
        }
        rows = dict.fromkeys(
            tuple(number[task, _image_of_set(own, g)] for task, own in number)
            for g in self.symmetries
        )
        return [row for row in rows if row != tuple(range(len(row)))]


def divisions(problem: Problem) -> Iterator[DividedBatch]:
    """One division of each orbit; the whole batch everywhere comes first."""
    elements = range(problem.batch)
    group = tuple(permutations(elements))
    yield from _divided(problem.graph.topological_order, list(partitions(elements)), group, {})


def _divided(
    tasks: Sequence[str],
    choices: Sequence[Partition],
    group: tuple[_Permutation, ...],
    parts: dict[str, Partition],
) -> Iterator[DividedBatch]:
    if not tasks:
        yield DividedBatch(dict(parts), group[1:])
        return
    for choice in choices:
        images = [image(choice, g) for g in group]
        if min(images) == choice:
            left = tuple(g for g, other in zip(group, images, strict=True) if other == choice)
            yield from _divided(tasks[1:], choices, left, parts | {tasks[0]: choice})


def image(partition: Partition, permutation: _Permutation) -> Partition:
    """What a permutation of the elements makes of a partition; sets and elements are sorted."""
    return tuple(sorted(_image_of_set(own, permutation) for own in partition))


def _image_of_set(elements: Sequence[int], permutation: _Permutation) -> tuple[int, ...]:
    return tuple(sorted(permutation[e] for e in elements))


def partitions(elements: Sequence[int]) -> Iterator[Partition]:
    """All ways to divide `elements` into sets; the whole comes first."""
    if not elements:
        yield ()
        return
    first, rest = elements[0], elements[1:]
    for count in range(len(rest), -1, -1):
        for others in combinations(rest, count):
            for more in partitions([e for e in rest if e not in others]):
                yield ((first, *others), *more)


def placements(problem: Problem, instance: Instance) -> float:
    """How many placements there are over all divisions, about (see the head of this file)."""
    batch, total = problem.batch, 1.0
    counts = _stirling(batch)
    for group in instance.groups:
        devices = len(instance.devices[group[0]])
        if problem.graph.task(instance.tasks[group[0]]).color is None:
            total *= sum(count * devices**j for j, count in enumerate(counts))
        else:
            total *= devices * sum(counts) ** len(group)
    return total / math.factorial(batch)


def count_divisions(problem: Problem) -> float:
    """How many divisions `divisions` lists, about."""
    return float(sum(_stirling(problem.batch)) ** len(problem.tasks)) / math.factorial(
        problem.batch
    )


def _stirling(batch: int) -> list[int]:
    """S(batch, j) for j = 0, 1, ...: partitions of so many elements into j sets."""
    row = [1]
    for _ in range(batch):
        padded = [*row, 0]
        row = [0, *(j * padded[j] + row[j - 1] for j in range(1, len(padded)))]
    return row
