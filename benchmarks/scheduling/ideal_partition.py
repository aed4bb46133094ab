"""The exact contiguous split of Tarnawski et al., from their paper, sharing no code with a solver.

J. Tarnawski, A. Phanishayee, N. Devanur, D. Mahajan, F. Nina Paravecino: Efficient Algorithms for
Device Placement of DNN Graph Operators, NeurIPS 2020, section 5.1.1. With

    acc(S)  sum of p(v) over S, plus c(u) once for every u outside with a reader in S, plus c(u)
            once for every u in S with a reader outside; infinite if the weights of S exceed the
            memory
    cpu(S)  sum of q(v) over S

and ideals I (sets that hold, with a node, all that it reads)

    dp[I, k, l] = min over ideals J in I of
                  max(dp[J, k-1, l], acc(I \\ J)),  max(dp[J, k, l-1], cpu(I \\ J))

is the least busiest device of k accelerators and l processors that form a pipeline. Nodes of one
color are one node. Here ideals are rows of booleans by rising size, and all I that hold a J are
looked at together. `at_most` leaves out stages above a known value, by the work alone.

What their files say and what this reads: accelerators are alike and joined to one host; processors
are alike and pay nothing for what they read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import networkx as nx
import numpy as np
import numpy.typing as npt

from tvm_hetero.problem import Problem

Floats = npt.NDArray[np.float64]
Booleans = npt.NDArray[np.bool_]
# Rounding of sums of works, where they are compared with a known value.
_EASE = 1 + 1e-9


@dataclass(frozen=True)
class _PaperGraph:
    """Nodes in topological order; of tensors what they cost once, their maker and their readers."""

    accelerator: Floats
    processor: Floats
    weights: Floats
    cost: Floats
    maker: Sequence[int]
    readers: Sequence[tuple[int, ...]]
    before: Sequence[frozenset[int]]
    accelerators: int
    processors: int
    memory: float


def least_busiest(problem: Problem, at_most: float = math.inf) -> float:
    """The least busiest device of contiguous stages, s; inf if there is none up to `at_most`.

    Parameters
    ----------
    at_most : a value above which nothing is of interest, s; what is left out saves time.
    """
    graph = _read(problem)
    ideals = _enumerate(graph.before)
    return _Table(graph, ideals, at_most * _EASE).fill()


def _read(problem: Problem) -> _PaperGraph:
    """The paper's input of a problem; `ValueError` if it is none."""
    tasks = {task.id: task for task in problem.tasks}
    quotient = nx.DiGraph()
    # A color may be named like a task.
    home = {
        name: ("task", name) if task.color is None else ("color", task.color)
        for name, task in tasks.items()
    }
    quotient.add_nodes_from(home.values())
    quotient.add_edges_from((home[edge.src], home[edge.dst]) for edge in problem.graph.edges)
    joined = nx.condensation(quotient)
    order = {node: i for i, node in enumerate(nx.topological_sort(joined))}
    place = {t: order[joined.graph["mapping"][home[t]]] for t in tasks}
    able = {d for row in problem.costs.values() for d in row}
    devices = [d for d in problem.platform.devices if d.name in able]
    fast = [d for d in devices if not d.overlap]
    slow = [d for d in devices if d.overlap]
    if not fast or problem.batch != 1:
        raise ValueError(f"{problem.name} has no accelerators without copy engine, or a batch")
    tensors: dict[str, tuple[int, float, set[int]]] = {}
    for edge in problem.graph.edges:
        seconds = _hop_seconds(problem, fast[0].name, edge.bytes)
        name = edge.tensor or edge.src
        tensors.setdefault(name, (place[edge.src], seconds, set()))[2].add(place[edge.dst])
    return _PaperGraph(
        _sums(problem, place, fast[0].name),
        _sums(problem, place, slow[0].name) if slow else np.full(len(order), math.inf),
        _added(len(order), [(place[t], float(task.weight_bytes)) for t, task in tasks.items()]),
        np.array([seconds for _, seconds, _ in tensors.values()]),
        [maker for maker, _, _ in tensors.values()],
        [tuple(sorted(readers - {maker})) for maker, _, readers in tensors.values()],
        [frozenset(order[u] for u in joined.predecessors(node)) for node in order],
        len(fast),
        len(slow),
        math.inf if fast[0].memory is None else float(fast[0].memory),
    )


def _hop_seconds(problem: Problem, accelerator: str, size: int) -> float:
    """What a copy to or from the host takes."""
    links = [link for link in problem.platform.links if accelerator in (link.src, link.dst)]
    return float(links[0].latency + size / links[0].bandwidth)


def _sums(problem: Problem, place: dict[str, int], device: str) -> Floats:
    works = [(at, problem.costs[task][device].seconds(1)) for task, at in place.items()]
    return _added(max(place.values()) + 1, works)


def _added(size: int, terms: Sequence[tuple[int, float]]) -> Floats:
    total = np.zeros(size)
    for at, value in terms:
        total[at] += value
    return total


def _enumerate(before: Sequence[frozenset[int]]) -> Booleans:
    """All ideals by rising size, as rows."""
    level: set[frozenset[int]] = {frozenset()}
    found: list[frozenset[int]] = []
    for _ in range(len(before) + 1):
        found += level
        level = {
            ideal | {v}
            for ideal in level
            for v in range(len(before))
            if v not in ideal and before[v] <= ideal
        }
    table = np.zeros((len(found), len(before)), dtype=np.bool_)
    for i, ideal in enumerate(found):
        table[i, sorted(ideal)] = True
    return table


class _Table:
    """dp of the head of this file, for every ideal (rows), k and l."""

    def __init__(self, graph: _PaperGraph, ideals: Booleans, limit: float) -> None:
        self.graph, self.ideals, self.limit = graph, ideals, limit
        packed = np.packbits(ideals, axis=1)
        self.words = np.pad(packed, ((0, 0), (0, -packed.shape[1] % 8))).view(np.uint64)
        self.work = ideals @ graph.accelerator
        self.weights = ideals @ graph.weights
        self.slow = ideals @ np.where(np.isfinite(graph.processor), graph.processor, 0.0)
        # How many readers of a tensor are in an ideal.
        self.read = np.zeros((len(ideals), len(graph.readers)), dtype=np.int16)
        for t, row in enumerate(graph.readers):
            self.read[:, t] = ideals[:, list(row)].sum(axis=1)
        readers = np.array([len(row) for row in graph.readers])
        self.open: Booleans = ideals[:, graph.maker] & (self.read < readers)
        self.open_cost = self.open @ graph.cost

    def fill(self) -> float:
        """Go through the ideals by rising size."""
        graph = self.graph
        shape = (len(self.ideals), graph.accelerators + 1, graph.processors + 1)
        best = np.full(shape, math.inf)
        best[0] = 0.0
        for j in range(len(self.ideals) - 1):
            if not np.isfinite(best[j]).any():
                continue
            above = self._above(j)
            fast = self._accelerator(j, above)[:, None, None]
            came = np.maximum(best[j, :-1], fast)
            best[above, 1:] = np.minimum(best[above, 1:], came)
            slow = (self.slow[above] - self.slow[j])[:, None, None]
            if graph.processors:
                came = np.maximum(best[j, :, :-1], np.where(slow <= self.limit, slow, math.inf))
                best[above, :, 1:] = np.minimum(best[above, :, 1:], came)
        return float(best[-1].min())

    def _above(self, j: int) -> npt.NDArray[np.int64]:
        """Ideals that hold ideal j and a little more: no stage of more work is of interest."""
        light = self.work[j + 1 :] - self.work[j] <= self.limit
        if self.graph.processors:
            light |= self.slow[j + 1 :] - self.slow[j] <= self.limit
        found = j + 1 + np.flatnonzero(light)
        mine = self.words[j]
        inside: Booleans = ((self.words[found] & mine) == mine).all(axis=1)
        return found[inside]

    def _accelerator(self, j: int, above: npt.NDArray[np.int64]) -> Floats:
        """acc of all that ideals `above` have beyond ideal j."""
        graph = self.graph
        border = np.flatnonzero(self.open[j])
        # A tensor that ideal j leaves open arrives if the stage reads it, and passes on if it is
        # still open: then it is no tensor of the stage.
        cost = graph.cost[border]
        there = np.ix_(above, border)
        arrives = (self.read[there] > self.read[j, border]) @ cost
        leaves = self.open_cost[above] - self.open[there] @ cost
        value = self.work[above] - self.work[j] + arrives + leaves
        held = self.weights[above] - self.weights[j] <= graph.memory
        return np.where(held & (value <= self.limit), value, math.inf)
