"""What the C++ search answers (see `native`)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tvm_hetero.solvers.timing.timing import TimedPlan
from tvm_hetero.views.instance import Hop


@dataclass(frozen=True)
class Decoded:
    """A decoded schedule.

    Attributes
    ----------
    value : of the objective (latency, energy, cost), inf where a tensor cannot reach a reader.
    makespan : s.
    excess : 0 where memory and latency limit are kept; else by which part of themselves they
        are exceeded, summed.
    starts, ends : of every part, s.
    hops : (tensor, hop) -> (start, end), s.
    """

    value: float
    makespan: float
    excess: float
    starts: tuple[float, ...]
    ends: tuple[float, ...]
    hops: dict[tuple[int, Hop], tuple[float, float]]

    @property
    def feasible(self) -> bool:
        """Whether every tensor arrives and all limits are kept."""
        return self.excess <= 0 and self.value < math.inf

    def keys(self, plan: TimedPlan) -> list[tuple[float, float]]:
        """The (start, end) of every activity of a plan for the same placement."""
        parts = list(zip(self.starts, self.ends, strict=True))
        return parts + [self.hops[t, hop] for t, hop in plan.hops]


@dataclass(frozen=True)
class NativeAnswer:
    """What a search found.

    Attributes
    ----------
    value, makespan, excess : as in `Decoded`; for throughput the largest load, s.
    placement : device of every part.
    order : the parts, topologically sorted.
    sequence : parts and fetches, to go on from; empty for throughput.
    evaluations : candidates that were looked at.
    work : steps that this took (about 5 ns each).
    stopped : whether the deadline cut it off, so that another run may find something else.
    """

    value: float
    makespan: float
    excess: float
    placement: tuple[int, ...]
    order: tuple[int, ...]
    sequence: tuple[int, ...]
    evaluations: int
    work: int
    stopped: bool

    @property
    def feasible(self) -> bool:
        """Whether every tensor arrives and all limits are kept."""
        return self.excess <= 0 and self.value < math.inf
