"""What a served model takes: queries of one element run by other plans than those of many."""

from __future__ import annotations

from collections.abc import Sequence

from tvm_hetero.serve.scheduling.course import Pace
from tvm_hetero.serve.scheduling.profile import ModelTimes, UsefulShare


class ServedTimes(ModelTimes):
    """Times of two kinds of plans under one name (`serve.models.share_plans.SHAPES`).

    Parameters
    ----------
    single, stream : predictions on 1, 2, ... cores, for one element and for many.
    """

    def __init__(self, single: Sequence[Pace], stream: Sequence[Pace]) -> None:
        super().__init__(stream)
        self._single = ModelTimes(single)

    def add(self, items: int, places: int, seconds: float) -> None:
        """Take a sample."""
        if items == 1:
            self._single.add(items, places, seconds)
        else:
            super().add(items, places, seconds)

    def doubt(self, items: int, allowed: float) -> None:
        """As `ModelTimes.doubt`, of the kind of plans by which so many run."""
        if items == 1:
            self._single.doubt(items, allowed)
        else:
            super().doubt(items, allowed)

    def paces(self, items: int) -> tuple[Pace, ...]:
        """Fill and period of so many items on at most 1, 2, ... places."""
        return self._single.paces(items) if items == 1 else super().paces(items)

    def useful_shares(self, items: int) -> tuple[UsefulShare, ...]:
        """As `ModelTimes.useful_shares`; each kind keeps, and forgets, its own."""
        return self._single.useful_shares(items) if items == 1 else super().useful_shares(items)

    def margin(self, items: int, places: int) -> float:
        """As `ModelTimes.margin`."""
        return self._single.margin(items, places) if items == 1 else super().margin(items, places)
