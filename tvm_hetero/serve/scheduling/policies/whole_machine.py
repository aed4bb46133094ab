"""Whole machine: one query after the other, each on all places, as most servers run models."""

from __future__ import annotations

from tvm_hetero.serve.scheduling.policies.in_turn import InTurn
from tvm_hetero.serve.scheduling.query import Query


class WholeMachine(InTurn):
    """All places; it waits until nothing else runs."""

    def share_of(self, query: Query, now: float) -> int | None:
        """All places, if nothing runs."""
        return None if self.running else self.most
