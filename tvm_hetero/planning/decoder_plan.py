"""What is planned for a decoder, and the plan: tokens, seconds and batches in flight.

See `tvm_hetero.planning.decoding` for the search and the notation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tvm_hetero import zoo
from tvm_hetero.planning.route import in_order
from tvm_hetero.platform.model import Platform
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.objective import makespan
from tvm_hetero.problem.objective_kinds import Objective
from tvm_hetero.problem.schedule import Schedule


@dataclass(frozen=True)
class DecoderRequest:
    """What is to be planned.

    Attributes
    ----------
    model : a network of the zoo; `parameters` of it, such as ``context`` and ``shards``.
    kind : ``latency`` of a step, or ``throughput`` of many.
    batch : sequences that take a step together.
    in_flight : batches under way together; None: 1 for latency, as many as it takes for throughput.
    """

    model: str
    platform: Platform
    kind: Literal["latency", "throughput"] = "latency"
    batch: int = 1
    in_flight: int | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def problem(self, in_flight: int, **changes: Any) -> Problem:
        """The scheduling problem, with caches for so many batches."""
        return zoo.problem(
            self.model,
            self.platform,
            Objective(self.kind, self.batch),
            in_flight=in_flight,
            **(dict(self.parameters) | changes),
        )


@dataclass(frozen=True)
class DecoderPlan:
    """A request and its plan.

    Attributes
    ----------
    wish : the request.
    in_flight : batches whose caches have a place.
    pass_seconds : one step of one batch through the plan; period : of the busiest device (or
        exclusive link).
    played : tokens a second of a simulation with all batches full; None where it would take long,
        and for a single batch, which waits for no one.
    pass_bound : what no plan's step of one batch takes less than, s; 0 if no one asked.
    seconds : that planning took.
    """

    wish: DecoderRequest
    problem: Problem
    schedule: Schedule
    in_flight: int
    pass_seconds: float
    period: float
    played: float | None = None
    pass_bound: float = 0.0
    seconds: float = 0.0

    @property
    def needed(self) -> int:
        """Batches in flight with which the busiest device need not wait, the least number."""
        return batches_to_fill(self.pass_seconds, self.period)

    @property
    def at_best(self) -> float:
        """Tokens a second if batches in flight waited for the busiest device only."""
        return self.wish.batch / max(self.period, self.pass_seconds / self.in_flight)

    @property
    def tokens_per_second(self) -> float:
        """New tokens of all sequences together, all batches full."""
        return self.at_best if self.played is None else self.played

    @property
    def gap(self) -> float:
        """What `at_best` may lack at most of what any plan of so many batches makes, a share."""
        if self.wish.kind == "latency":
            return self.schedule.gap
        best = max(self.schedule.lower_bound, self.pass_bound / self.in_flight)
        return max(0.0, 1 - best / max(self.period, self.pass_seconds / self.in_flight))

    @property
    def seconds_per_token(self) -> float:
        """From one token of a sequence to its next, all batches full."""
        return self.sequences / self.tokens_per_second

    @property
    def sequences(self) -> int:
        """Sequences that have a place at once."""
        return self.wish.batch * self.in_flight


def batches_to_fill(pass_seconds: float, period: float) -> int:
    """The least G with G x period >= pass_seconds, but for rounding."""
    return max(1, math.ceil(pass_seconds / period * (1 - 1e-9))) if period > 0 else 1


def one_pass(problem: Problem, schedule: Schedule) -> float:
    """Seconds that one batch takes through a schedule, alone (L in `decoding`)."""
    if problem.objective.kind == "latency":
        return schedule.value
    steps = [(e.task, e.device, e.elements) for e in schedule.executions]
    return makespan(in_order(problem, steps).executions)
