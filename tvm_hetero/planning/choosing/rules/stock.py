"""What rules share: machines that are still to be had, and options that a class may take."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from tvm_hetero.errors import InfeasibleError
from tvm_hetero.planning.choosing.find_choice import RatedRequest
from tvm_hetero.planning.choosing.options import RatedOption
from tvm_hetero.planning.choosing.program import Replicas, money

Counts = Mapping[RatedOption, int]


class MachineStock:
    """How many machines of each kind are left."""

    def __init__(self, case: RatedRequest) -> None:
        self.left = {machine.name: machine.available for machine in case.request.machines}

    def take(self, counts: Counts) -> None:
        """Hand out machines."""
        for rated, count in counts.items():
            self.left[rated.option.machine.name] -= count


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


def price_of_counts(counts: Counts) -> int:
    """Millionths an hour."""
    return sum(money(rated) * count for rated, count in counts.items())


def cheapest(found: Iterable[Counts], what: str) -> Counts:
    """Of several ways the cheapest, the first of equal ones.

    Raises
    ------
    InfeasibleError
        If there is none.
    """
    ways = list(found)
    if not ways:
        raise InfeasibleError(f"the rule finds no machines for class {what!r}")
    return min(ways, key=price_of_counts)


def replicas_of(every: Iterable[Counts]) -> Replicas:
    """Replicas of all classes."""
    return tuple((rated, count) for counts in every for rated, count in counts.items() if count)
