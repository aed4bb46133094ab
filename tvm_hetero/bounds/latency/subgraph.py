"""Some tasks of a graph as a problem of their own: a module, or all of them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tvm_hetero.bounds.latency.critical_path import heads_and_tails
from tvm_hetero.views.arrays import Array, Figures


@dataclass(frozen=True)
class Subgraph:
    """Some tasks of a graph with heads and tails within them: task i of it is `tasks[i]`.

    `least` and `rate` are those of `Figures`, or 0 for a task that ended before the part
    began, or inf where the caller forbids it.
    """

    figures: Figures
    tasks: Array
    edges: Array
    least: Array
    rate: Array
    head: Array
    tail: Array

    @classmethod
    def of(
        cls, figures: Figures, tasks: Array, edges: Array, least: Array, rate: Array
    ) -> Subgraph:
        """Work out heads and tails."""
        place = np.full(len(figures), -1, dtype=np.int64)
        place[tasks] = np.arange(len(tasks))
        own = replace(
            figures,
            tasks=tuple(figures.tasks[int(v)] for v in tasks),
            least=least,
            rate=rate,
            src=place[figures.src[edges]],
            dst=place[figures.dst[edges]],
            tensor=figures.tensor[edges],
        )
        head, tail = heads_and_tails(own)
        return cls(figures, tasks, edges, least, rate, head, tail)

    @classmethod
    def whole(cls, figures: Figures) -> Subgraph:
        """All of a graph."""
        tasks, edges = np.arange(len(figures)), np.arange(len(figures.src))
        head, tail = heads_and_tails(figures)
        return cls(figures, tasks, edges, figures.least, figures.rate, head, tail)
