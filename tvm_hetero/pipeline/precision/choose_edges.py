"""Which tensors between tasks are in bfloat16: the quickest choice, by measured times of kernels.

Problem
    An edge e (`tvm_hetero.passes.narrow_edges`) has a writer w(e) and readers r in R(e). A task t
    takes c(t, i, o) seconds, where i says whether its data and o whether its output is an edge in
    bfloat16; in(t) and out(t) are its edges, of each of which it has one at most. Which edges x,
    each 0 or 1, take the least?

        least sum over tasks t:  c(t, x(in(t)), x(out(t)))

Answer
    A task reads one edge, so that edges are trees: those of the readers of e stand below e. What
    is below an edge takes at least, by whether it is in bfloat16,

        below(e, i) = sum over r in R(e):  least over o of  c(r, i, o) + below(out(r), o)

    and edges are looked at from the last writer to the first one. Where both take as long, an edge
    stays float32.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

from tvm_hetero.passes.narrow_edges import NarrowEdge


class TaskSeconds(Protocol):
    """What a task takes."""

    def __call__(self, task: int, *, reads: bool, writes: bool) -> float:
        """Seconds of a task (by its position) whose data or output is in bfloat16 in memory; what
        is not known is infinite.
        """
        ...


Costs = dict[bool, float]


def choose_edges(edges: Sequence[NarrowEdge], seconds: TaskSeconds) -> list[NarrowEdge]:
    """The edges in bfloat16 with which all tasks together take the least.

    Parameters
    ----------
    edges
        That may be, writers before readers.
    seconds
        Of each task.
    """
    out = {edge.writer: edge for edge in edges}
    below: dict[NarrowEdge, Costs] = {}

    def output(task: int, reads: bool) -> tuple[bool, float]:
        """Whether a task's output is in bfloat16, and what it and all below it take then."""
        edge = out.get(task)
        plain = seconds(task, reads=reads, writes=False)
        if edge is None:
            return False, plain
        plain += below[edge][False]
        short = seconds(task, reads=reads, writes=True) + below[edge][True]
        return (True, short) if short < plain else (False, plain)

    for edge in reversed(edges):
        below[edge] = {
            reads: math.fsum(output(reader, reads)[1] for reader in edge.readers)
            for reads in (False, True)
        }
    chosen: dict[NarrowEdge, bool] = {}
    data = {reader: edge for edge in edges for reader in edge.readers}
    for edge in edges:
        reads = edge.writer in data and chosen[data[edge.writer]]
        chosen[edge], _ = output(edge.writer, reads)
    return [edge for edge in edges if chosen[edge]]
