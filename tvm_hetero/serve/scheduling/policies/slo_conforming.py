"""SLO-Conforming, a baseline of the paper: the least share that meets the SLO, fixed for life."""

from __future__ import annotations

from tvm_hetero.serve.scheduling.policies.in_turn import InTurn
from tvm_hetero.serve.scheduling.query import Query


class SloConforming(InTurn):
    """The least share that meets the SLO; it waits until that is free."""

    def share_of(self, query: Query, now: float) -> int | None:
        """That share, if it is free."""
        needed = self._needed(query, now)
        return needed if needed <= self.pool.free else None
