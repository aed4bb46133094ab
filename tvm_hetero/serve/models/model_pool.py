"""Who has to know which models are served: a pool of cores that they share, or nobody."""

from __future__ import annotations

from typing import Protocol

from tvm_hetero.serve.models.gated_stepper import Gate
from tvm_hetero.serve.models.tensor_model import TensorModel


class ModelPool(Protocol):
    """Who has to know which models there are."""

    def add(self, model: TensorModel) -> None:
        """A model will be served."""
        ...

    def gate(self, name: str, version: str, seconds: float) -> Gate | None:
        """A decoder will be served, whose steps take about so long."""
        ...

    def remove(self, name: str, version: str) -> None:
        """It is not, any more."""
        ...


class NoPool:
    """Models that share nothing: each has all cores."""

    def add(self, model: TensorModel) -> None:
        """Nobody has to know."""

    def gate(self, name: str, version: str, seconds: float) -> Gate | None:
        """Nobody waits."""
        return None

    def remove(self, name: str, version: str) -> None:
        """Nobody knew."""
