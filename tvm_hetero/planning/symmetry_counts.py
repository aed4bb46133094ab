"""What it saves to count devices that are alike instead of naming them: exact counts.

With K devices and N tasks, of which task t can run on m(t) devices, there are M = product of m(t)
placements. Exchanges of equal devices and nodes (`tvm_hetero.views.symmetry`) form a group of

    |G| = product over sets of k twins of k!  x  product over orbits of b blocks of b!

permutations, and placements that an exchange carries into each other are worth the same. By the
lemma of Cauchy, Frobenius and Burnside they fall into

    (1 / |G|) x sum over g in G of the placements that g leaves as they are   >=  M / |G|

classes; that is what is told, since all g but the identity together add next to nothing where there
are more than a few tasks (each task has to be on a device that g leaves alone).

The table that counts devices (`tvm_hetero.solvers.counting.dp_table`) tells sets of used devices
apart by how many nodes of each type are used up, and how many devices of each class in the open
one: as many as `counted`, where names would make 2^K.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tvm_hetero.problem.model import Problem
from tvm_hetero.views.instance import instance_of
from tvm_hetero.views.machine_counts import machines_of
from tvm_hetero.views.symmetry import find_symmetry


@dataclass(frozen=True)
class SymmetryCounts:
    """Sizes of the search with and without names (see the head of this file).

    Attributes
    ----------
    exchanges : |G|; placements, classes : log10 of M and of M / |G|.
    named, counted : sets of used devices that a table over names, and ours, tells apart.
    types : devices that cannot be exchanged for each other.
    """

    exchanges: int
    placements: float
    classes: float
    named: int
    counted: int
    types: int


def symmetry_counts(problem: Problem) -> SymmetryCounts:
    """What the symmetry of a problem's devices saves."""
    symmetry = find_symmetry(problem)
    exchanges = math.prod(math.factorial(len(row)) for row in symmetry.twins)
    exchanges *= math.prod(math.factorial(len(orbit)) for orbit in symmetry.blocks)
    placements = math.fsum(math.log10(len(problem.devices_for(t.id))) for t in problem.tasks)
    machines = machines_of(instance_of(problem))
    useful = sum(len(m.nodes) * sum(m.counts) for m in machines)
    return SymmetryCounts(
        exchanges=exchanges,
        placements=placements,
        classes=placements - math.log10(exchanges),
        named=2**useful,
        counted=sum(len(m.nodes) * math.prod(n + 1 for n in m.counts) for m in machines),
        types=len(set(symmetry.types())),
    )
