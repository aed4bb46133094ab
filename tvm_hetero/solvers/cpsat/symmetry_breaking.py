"""Ordering constraints: of all schedules that are the same but for names, keep one.

Where devices can change places (`tvm_hetero.views.symmetry`), a model that names them proves every
bound once for each naming. So devices, and nodes as sums of their devices, are ordered by how
much they have to do:

    sum over v, d in M of w(v) x[v, d]  >=  sum over v, d in L of w(v) x[v, d]

for neighbours M, L among twins and among aligned blocks, with w(v) one of

    time      the duration of v there (time utilisation)
    tasks     1
    batches   the number of batch elements of v

These are the three orderings that DiviML compares (arXiv 2308.00127). The optimum stays: sort the
blocks of any schedule by their sums, then the twins in each by theirs; sorting is a symmetry, and
twins do not change the sums of blocks (no set of twins reaches over blocks of an orbit).

A start has to be renamed likewise before it is a hint, or the constraints refuse it: `renaming`.

=============================  ==============================================
constraint                     function
=============================  ==============================================
the rows above, plain data     `orderings` (for any backend), `weight`
the same in CP-SAT             `add_orderings`
a start that satisfies them    `renaming`, `rename_devices`
=============================  ==============================================
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from tvm_hetero.views.instance import Instance
from tvm_hetero.views.symmetric_paths import Permutation
from tvm_hetero.views.symmetry import Symmetry, find_symmetry

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

Weight = Callable[[int, int], int]


@dataclass(frozen=True)
class Ordering:
    """The devices `more` have together at least as much to do as the devices `less`."""

    more: tuple[int, ...]
    less: tuple[int, ...]


def orderings(symmetry: Symmetry) -> tuple[Ordering, ...]:
    """One row for every two neighbours among twins and among blocks."""
    rows = [Ordering((a,), (b,)) for twins in symmetry.twins for a, b in pairwise(twins)]
    rows += [Ordering(a, b) for orbit in symmetry.blocks for a, b in pairwise(orbit)]
    return tuple(rows)


def symmetry_of(instance: Instance, mode: str) -> Symmetry:
    """The symmetry that `Options.symmetry` asks to break: none for ``"none"``."""
    if mode == "none":
        return Symmetry(len(instance.names))
    return find_symmetry(instance.problem)


def weight(instance: Instance, mode: str, run: Weight) -> Weight:
    """w(v, d) of an ordering; `run` is the duration of v on d in whole units."""
    if mode == "time":
        return run
    if mode == "tasks":
        return lambda v, d: 1
    return lambda v, d: len(instance.elements[v])


def add_orderings(
    model: cp_model.CpModel,
    x: Mapping[tuple[int, int], cp_model.IntVar],
    symmetry: Symmetry,
    weigh: Weight,
) -> None:
    """Add the rows to a CP-SAT model with assignment variables x[v, d]."""
    terms: dict[int, list[cp_model.LinearExpr]] = {}
    for (v, d), literal in x.items():
        terms.setdefault(d, []).append(weigh(v, d) * literal)
    for row in orderings(symmetry):
        more = sum(term for d in row.more for term in terms.get(d, []))
        less = sum(term for d in row.less for term in terms.get(d, []))
        if not isinstance(less, int):
            model.add(more >= less)


def renaming(symmetry: Symmetry, weigh: Weight, placement: Sequence[int]) -> Permutation:
    """The symmetry after which a placement satisfies all rows of `orderings`.

    Parameters
    ----------
    placement : the device of every part.

    Returns
    -------
    For every device its new one: what ran on d then runs on ``result[d]``.
    """
    load = [0] * symmetry.devices
    for v, d in enumerate(placement):
        load[d] += weigh(v, d)
    # What is on place p came from device came[p]. Blocks of teams may lie in others, sorted before.
    came = list(range(symmetry.devices))
    for orbit in symmetry.blocks:
        ranked = sorted(orbit, key=lambda block: -sum(load[came[d]] for d in block))
        moved = list(came)
        for old, new in zip(ranked, orbit, strict=True):
            for a, b in zip(old, new, strict=True):
                moved[b] = came[a]
        came = moved
    final = list(range(symmetry.devices))
    for place, device in enumerate(came):
        final[device] = place
    for twins in symmetry.twins:
        ranked_twins = sorted((came[place] for place in twins), key=lambda d: -load[d])
        for device, place in zip(ranked_twins, twins, strict=True):
            final[device] = place
    return tuple(final)


def rename_devices(symmetry: Symmetry, weigh: Weight, placement: Sequence[int]) -> list[int]:
    """The placement after its `renaming`."""
    names = renaming(symmetry, weigh, placement)
    return [names[d] for d in placement]
