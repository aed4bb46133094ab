"""What is asked: models with their SLOs and their load of every hour, and machines."""

from __future__ import annotations

from dataclasses import dataclass

from tvm_hetero.planning.choosing.request import MachineOffer, ModelVariant, SloLimit


@dataclass(frozen=True)
class SharedModel:
    """A model that is asked all day.

    Attributes
    ----------
    network : what it costs (its accuracy does not matter: nobody chooses between models here).
    rates : requests a second in each hour, in the mean; Poisson.
    """

    network: ModelVariant
    slo: tuple[SloLimit, ...]
    rates: tuple[float, ...]

    @property
    def name(self) -> str:
        """Of the network."""
        return self.network.name

    @property
    def patience(self) -> float:
        """The shortest limit of the SLO, s: by it a request's turn is told."""
        return min(limit.seconds for limit in self.slo)


@dataclass(frozen=True)
class SharedMachine:
    """A kind of machine, and what it takes to change what it does.

    Attributes
    ----------
    start : seconds that are paid for before it serves.
    loading : bytes a second at which weights come onto it, from wherever they are kept; the machine
        is paid for as long.
    """

    offer: MachineOffer
    start: float = 60.0
    loading: float = 1e9


@dataclass(frozen=True)
class SharingRequest:
    """The whole question.

    Attributes
    ----------
    batches : the largest batches of plans.
    seconds : of each hour that are played.
    """

    models: tuple[SharedModel, ...]
    machines: tuple[SharedMachine, ...]
    batches: tuple[int, ...] = (1, 4, 16)
    seconds: float = 20.0
    name: str = "request"
    seed: int = 0

    @property
    def hours(self) -> int:
        """Of the day."""
        return len(self.models[0].rates)
