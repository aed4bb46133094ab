"""What rules share: machines that are still to be had, and options that a class may take."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from tvm_hetero.errors import InfeasibleError
from tvm_hetero.planning.choosing.find_choice import RatedRequest
from tvm_hetero.planning.choosing.options import RatedOption
from tvm_hetero.planning.choosing.program import Replicas

Counts = Mapping[RatedOption, int]
# What a replica costs, whole: money or watts.
ReplicaCost = Callable[[RatedOption], int]

# The ways to serve a class with so many machines of each kind left.
Ways = Callable[[int, Mapping[str, int]], Iterable[Counts]]


def serve_in_turn(case: RatedRequest, ways: Ways, cost: ReplicaCost) -> Replicas:
    """The cheapest way of each class, in the order of the question, with what others left.

    Raises
    ------
    InfeasibleError
        If too few machines are left for a class.
    """
    left = {machine.name: machine.available for machine in case.request.machines}
    found: list[Counts] = []
    for k, served in enumerate(case.request.classes):
        found.append(cheapest(ways(k, left), served.name, cost))
        for rated, count in found[-1].items():
            left[rated.option.machine.name] -= count
    return replicas_of(found)


def by_variant(case: RatedRequest, k: int) -> Iterator[list[RatedOption]]:
    """The options that class k may take, those of one variant together."""
    served = case.request.classes[k]
    for variant in case.request.variants:
        found = [
            each for each in case.rated
            if each.served == k and each.option.variant.name == variant.name
        ]  # fmt: skip
        if found and variant.accuracy >= served.least_accuracy:
            yield found


def cost_of_counts(counts: Counts, cost: ReplicaCost) -> int:
    """Of all of them."""
    return sum(cost(rated) * count for rated, count in counts.items())


def cheapest(found: Iterable[Counts], what: str, cost: ReplicaCost) -> Counts:
    """Of several ways the cheapest, the first of equal ones.

    Raises
    ------
    InfeasibleError
        If there is none.
    """
    ways = list(found)
    if not ways:
        raise InfeasibleError(f"the rule finds no machines for class {what!r}")
    return min(ways, key=lambda counts: cost_of_counts(counts, cost))


def replicas_of(every: Iterable[Counts]) -> Replicas:
    """Replicas of all classes."""
    return tuple((rated, count) for counts in every for rated, count in counts.items() if count)
