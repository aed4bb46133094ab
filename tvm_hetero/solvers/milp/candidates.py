"""The executions that a MILP may choose from: which task, where, how many elements.

A *candidate* is an execution that may take place once, in one of its *modes*: a device and a
number of elements, each with its own cost (DiviML's batch-size choice b[i, j, n]). Classes:

`whole`   one element: each task has one candidate, which takes place. Every schedule of the
          problem is in this class.
`slots`   B candidates a task, free to be on any device. Candidate k holds element k if it takes
          place, and apart from it only larger ones: every division of a batch is written in
          exactly one way, so this class, too, is every schedule there is. For small batches.
`places`  DiviML's class: at most one execution a task and device. It is smaller than the slots
          for larger batches, but it leaves schedules out: two executions of one task on one
          device let the first half of a batch go on while the second half runs, and send only
          one half to another device. So nothing that is proven of this class is claimed of the
          problem (one exception: `merging_is_free`).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple

from tvm_hetero.problem.cost import Cost
from tvm_hetero.views.instance import Instance

Class = Literal["whole", "slots", "places"]

# Variables (about) up to which the slots are used, and up to which any model is built: one
# of 3,600 takes 0.05 s to build, and HiGHS and SCIP did not improve on its start in 4 s.
MOST_FOR_SLOTS = 4_000
MOST_VARIABLES = 60_000


class Mode(NamedTuple):
    """One way to carry out a candidate."""

    device: int
    size: int


@dataclass(frozen=True)
class PlacementCandidate:
    """An execution that may be. `certain`: it takes place, with every element of the batch.

    `elements` are those that it may hold, `first` the one that it holds if it takes place.
    """

    task: int
    modes: tuple[Mode, ...]
    elements: tuple[int, ...]
    first: int | None = None
    certain: bool = False

    @property
    def devices(self) -> tuple[int, ...]:
        """The devices of its modes, each once."""
        return tuple(dict.fromkeys(mode.device for mode in self.modes))


@dataclass(frozen=True)
class Candidates:
    """All candidates, those of one task next to each other; `of[v]` are positions."""

    kind: Class
    rows: tuple[PlacementCandidate, ...]
    of: tuple[tuple[int, ...], ...]

    def __len__(self) -> int:
        return len(self.rows)


def choose_class(instance: Instance) -> Class:
    """The class that the model of a problem takes."""
    if instance.problem.batch == 1:
        return "whole"
    return "slots" if count_variables(instance, "slots") <= MOST_FOR_SLOTS else "places"


def make_candidates(instance: Instance, kind: Class) -> Candidates:
    """The candidates of a class."""
    rows: list[PlacementCandidate] = []
    of: list[tuple[int, ...]] = []
    for v in range(len(instance)):
        mine = _of_task(instance, kind, v)
        of.append(tuple(range(len(rows), len(rows) + len(mine))))
        rows += mine
    return Candidates(kind, tuple(rows), tuple(of))


def _of_task(instance: Instance, kind: Class, v: int) -> list[PlacementCandidate]:
    batch, devices = instance.problem.batch, instance.devices[v]
    everything = tuple(range(batch))
    if kind == "whole":
        return [PlacementCandidate(v, tuple(Mode(d, 1) for d in devices), everything, None, True)]
    if kind == "slots":
        sizes = [range(1, batch - k + 1) for k in everything]
        modes = [tuple(Mode(d, n) for d in devices for n in row) for row in sizes]
        return [PlacementCandidate(v, modes[k], everything[k:], k) for k in everything]
    numbers = range(1, batch + 1)
    return [PlacementCandidate(v, tuple(Mode(d, n) for n in numbers), everything) for d in devices]


def count_variables(instance: Instance, kind: Class) -> int:
    """About how many variables the model of a class has."""
    batch, k = instance.problem.batch, len(instance.names)
    counts, modes = [], []
    for devices in instance.devices:
        counts.append({"whole": 1, "slots": batch, "places": len(devices)}[kind])
        modes.append(len(devices) * {"whole": 1, "slots": batch, "places": batch}[kind])
    pairs = 0 if instance.problem.objective.kind == "throughput" else sum(counts) ** 2
    moves = 0
    for flow in instance.tensors:
        for reader in flow.readers:
            ends = {"places": 1}.get(kind, k) * counts[reader]
            moves += counts[flow.maker] * modes[flow.maker] * ends
    return pairs + moves + sum(m * c for m, c in zip(modes, counts, strict=True))


def is_exact(instance: Instance, kind: Class) -> bool:
    """Whether what is proven of a class is proven of the problem.

    A tensor that reaches a device by two different links is not weighed by the model, whatever
    the class; routes depend on the bytes, so all sizes are asked.
    """
    return routes_form_trees(instance) and (kind != "places" or merging_is_free(instance))


def merging_is_free(instance: Instance) -> bool:
    """Whether two executions of a task on one device are never better than one for all of both.

    Proven for throughput where no copy occupies anything, memory has no limit and no cost is
    larger together than apart: merging two executions then leaves every load as it was or
    smaller, and every tensor is made and read on the same devices as before.
    """
    problem = instance.problem
    if problem.objective.kind != "throughput" or any(instance.memory_binds):
        return False
    devices = range(len(instance.names))
    copies = any(instance.resources((a, b)) for a in devices for b in devices if a != b)
    costs = (cost for row in problem.costs.values() for cost in row.values())
    return not copies and all(_subadditive(cost, problem.batch) for cost in costs)


def _subadditive(cost: Cost, batch: int) -> bool:
    """c(n) / n never rises, from which c(m + n) <= c(m) + c(n) follows."""
    sizes = sorted({1, batch, *(n for n, _ in cost.points if n < batch)})
    # Between two points the cost is linear, so c(n) / n is monotone there.
    rates = [cost.seconds(n) / n for n in sizes]
    return all(later <= earlier for earlier, later in pairwise(rates))


def routes_form_trees(instance: Instance) -> bool:
    """`Instance.routes_form_trees` for tensors of any number of elements."""
    batch = instance.problem.batch
    per_element = {flow.nbytes // batch for flow in instance.tensors}
    return instance.form_trees(sorted({b * n for b in per_element for n in range(1, batch + 1)}))
