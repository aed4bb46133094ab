"""Fastest, a baseline of the paper: as many places as are free and make it quicker."""

from __future__ import annotations

from tvm_hetero.serve.scheduling.policies.in_turn import InTurn
from tvm_hetero.serve.scheduling.query import Query


class Fastest(InTurn):
    """All free places that make it quicker; it waits only if none is free."""

    def share_of(self, query: Query, now: float) -> int | None:
        """The quickest share of what is free."""
        free = min(self.pool.free, self.most)
        return self.profile.times(query.model).shape(query.items, free) if free else None
