"""What is asked: variants of a model, machines that can be had, load, SLO, goal.

Notation, used throughout this folder:

    k       a class of requests: a load, an SLO, the least accuracy that it takes
    v       a variant of the model: accuracy and precision
    m       a kind of machine: how many may be had, price, watts
    B       the largest batch that a replica takes at once
    o       an option (v, m, B) with its plan; a replica of it is one machine that runs that plan
    y[k,o]  replicas of o that serve class k; all of a class run one variant, so that a user's
            answers do not differ by chance

Requests of a network ask for one answer (`prompt` and `output` are 1); those of a decoder for
tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tvm_hetero.planning.requests import ServiceRequest
from tvm_hetero.platform.model import Platform
from tvm_hetero.problem.model import Problem

GOALS = ("price", "energy", "accuracy", "front")
# What an SLO may limit, and at which percentiles.
FIGURES = ("latency", "ttft", "tpot")
PERCENTILES = (50, 90, 95, 99)
PRECISIONS = ("float32", "float16", "int8")


@dataclass(frozen=True)
class ModelVariant:
    """One way to answer a request.

    Attributes
    ----------
    model : a network of the zoo, with `parameters` of it; empty: `problems` has what it costs.
    accuracy : any figure of which more is better, the same for all variants (top-1 in percent).
    precision : one of `PRECISIONS`.
    problems : scheduling problems with measured costs, by the name of the machine.
    """

    name: str
    accuracy: float
    model: str = ""
    precision: str = "float32"
    parameters: Mapping[str, Any] = field(default_factory=dict)
    problems: Mapping[str, Problem] = field(default_factory=dict)


@dataclass(frozen=True)
class MachineOffer:
    """A kind of machine.

    Attributes
    ----------
    available : how many may be had.
    price : of one, an hour; None: nobody knows.
    idle_watts, busy_watts : of the whole machine; None: the sums of its devices' own figures.
    level : the frequency level that it runs at, where it has several (`levels`).
    """

    name: str
    platform: Platform
    available: int
    price: float | None = None
    idle_watts: float | None = None
    busy_watts: float | None = None
    level: str = ""

    @property
    def label(self) -> str:
        """``laptop``, or ``laptop at big.low``."""
        return f"{self.name} at {self.level}" if self.level else self.name


@dataclass(frozen=True)
class SloLimit:
    """`percentile` % of a class's requests have a `figure` of at most `seconds`."""

    figure: str
    percentile: int
    seconds: float

    @property
    def name(self) -> str:
        """``latency p99``."""
        return f"{self.figure} p{self.percentile}"


@dataclass(frozen=True)
class RequestClass:
    """Requests with one SLO.

    Attributes
    ----------
    requests : in the order of arrival (s).
    least_accuracy : variants below it do not serve this class.
    seconds : how long they arrive; None: as long as the question says.
    rate : how many a second were asked for, in the mean; None: as many as there are. Those that
        were drawn may be fewer.
    """

    name: str
    requests: tuple[ServiceRequest, ...]
    slo: tuple[SloLimit, ...]
    least_accuracy: float = 0.0
    seconds: float | None = None
    rate: float | None = None

    @property
    def fewest_late(self) -> int:
        """How many requests may be late by the strictest limit of the SLO, rounded down."""
        return len(self.requests) * (100 - max(e.percentile for e in self.slo)) // 100


@dataclass(frozen=True)
class SpendingLimit:
    """What all machines together may cost an hour, and draw; None: no limit."""

    price: float | None = None
    watts: float | None = None


@dataclass(frozen=True)
class ChoiceRequest:
    """The whole question.

    Attributes
    ----------
    goal : one of `GOALS`; ``front`` answers as ``price`` does.
    seconds : how long requests arrive.
    batches : the largest batches of plans.
    """

    variants: tuple[ModelVariant, ...]
    machines: tuple[MachineOffer, ...]
    classes: tuple[RequestClass, ...]
    goal: str = "price"
    budget: SpendingLimit = SpendingLimit()
    seconds: float = 60.0
    batches: tuple[int, ...] = (1, 4, 16)
    name: str = "request"
    seed: int = 0

    @property
    def count(self) -> int:
        """Requests of all classes."""
        return sum(len(each.requests) for each in self.classes)
