"""1-Stage, a baseline of the paper: one place for each query."""

from __future__ import annotations

from tvm_hetero.serve.scheduling.policies.in_turn import InTurn
from tvm_hetero.serve.scheduling.query import Query


class OneStage(InTurn):
    """One place; it waits until one is free."""

    def share_of(self, query: Query, now: float) -> int | None:
        """One place, if one is free."""
        return 1 if self.pool.free else None
