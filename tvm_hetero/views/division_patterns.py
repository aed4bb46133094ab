"""Patterns of division: which device takes how many elements of a task's batch.

A *pattern* of a task is a row of shares (d, n): one execution of n elements on device d each, of
sum B. The elements of its shares follow one another, so a pattern is all that has to be said of a
task, and a row of patterns, one a task, is a division with its placement

    executions of task t:  elements [n1 + .. + n(j-1), n1 + .. + nj) on dj,  j = 1, 2, ...

Who divides a batch says it in this form, whatever the objective: `batches` (streams that hold
elements; latency, energy, cost), `shares` and `throughput` (parts of a period), and `elements`, one
pattern for all tasks, in shares of one element as they are dealt out. There a device runs what it
has of several shares at once                                               -> `elements_by_device`
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from tvm_hetero.problem.model import Problem
from tvm_hetero.views.instance import Instance


class ElementShare(NamedTuple):
    """One execution: `elements` >= 1 elements of a task on a device (its position)."""

    device: int
    elements: int


DivisionPattern = Sequence[ElementShare]


def ranges_of(counts: Iterable[int]) -> list[tuple[int, ...]]:
    """The elements of parts of so many, which follow one another from 0 on."""
    return [tuple(range(a, b)) for a, b in pairwise(accumulate(counts, initial=0))]


def even_counts(batch: int, parts: int) -> list[int]:
    """`parts` numbers of sum `batch` that differ by one at most."""
    return [b - a for a, b in pairwise(batch * i // parts for i in range(parts + 1))]


def elements_by_device(pattern: DivisionPattern) -> dict[int, tuple[int, ...]]:
    """The elements that each device has, of all its shares; devices as they first come."""
    found: dict[int, list[int]] = {}
    for share, own in zip(pattern, ranges_of(s.elements for s in pattern), strict=True):
        found.setdefault(share.device, []).extend(own)
    return {device: tuple(elements) for device, elements in found.items()}


def divide_by_patterns(
    problem: Problem, patterns: Sequence[DivisionPattern]
) -> tuple[Instance, list[int]]:
    """The divided instance and the device of each of its parts.

    Parameters
    ----------
    patterns : of every task, in the problem's order.

    Raises
    ------
    UsageError
        If the shares of a task do not add up to the batch.
    """
    tasks = problem.graph.tasks
    instance = Instance(
        problem,
        {
            task.id: ranges_of(share.elements for share in pattern)
            for task, pattern in zip(tasks, patterns, strict=True)
        },
    )
    placement = [0] * len(instance)
    for parts, pattern in zip(instance.parts_of, patterns, strict=True):
        for part, share in zip(parts, pattern, strict=True):
            placement[part] = share.device
    return instance, placement
