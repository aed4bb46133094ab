"""What was seen of a configuration while some requests went through it.

A stage's time is from its first step's begin to its last step's end for ONE request, waiting for
others excluded. Of it, `cpu_seconds` is what the place's thread spent on a core and
`delay_seconds` what it waited for one in the kernel's run queue: a core that somebody shares makes
the delay grow, a cache, memory or clock that somebody takes makes the CPU time grow.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tvm_hetero.errors import UsageError
from tvm_hetero.online.own_plan import Arrangement


@dataclass(frozen=True)
class StageTime:
    """What one stage took for a request, s.

    Attributes
    ----------
    seconds : median over the requests.
    spread : 1.4826 times the median absolute deviation: the standard deviation, of normal noise.
    cpu_seconds, delay_seconds : medians; None where they were not measured.
    """

    seconds: float
    spread: float = 0.0
    cpu_seconds: float | None = None
    delay_seconds: float | None = None

    def __post_init__(self) -> None:
        if not (0 < self.seconds < math.inf and 0 <= self.spread < math.inf):
            raise UsageError(
                "a stage's time is above 0 and finite, its spread at least 0; got "
                f"{self.seconds} s and {self.spread} s"
            )
        for name in ("cpu_seconds", "delay_seconds"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < math.inf:
                raise UsageError(f"{name} of a stage are at least 0 and finite, got {value}")


@dataclass(frozen=True)
class Observation:
    """A window: some requests in a row, all of them through one configuration.

    Attributes
    ----------
    configuration : contiguous stages, or the artifact's own plan.
    requests : how many ended in it; seconds : how long it took.
    throughput : requests/s, ends over time; None if the pipeline did not always have work waiting
        (or if there were too few ends to tell), so that it says nothing of the configuration.
    stages : in the order of the configuration.
    """

    configuration: Arrangement
    requests: int
    seconds: float
    throughput: float | None
    stages: tuple[StageTime, ...]

    def __post_init__(self) -> None:
        if len(self.stages) != len(self.configuration):
            raise UsageError(
                f"expected times of {len(self.configuration)} stages, got {len(self.stages)}"
            )
        if self.requests < 1 or not 0 <= self.seconds < math.inf:
            raise UsageError(
                "a window has at least one request, and takes at least 0 s and not for ever; got "
                f"{self.requests} and {self.seconds} s"
            )
        if self.throughput is not None and not 0 < self.throughput < math.inf:
            raise UsageError(
                f"throughput is above 0 and finite, or None where nobody knows it; got "
                f"{self.throughput}"
            )

    @property
    def bottleneck(self) -> int:
        """The slowest stage, the first of equal ones."""
        return max(range(len(self.stages)), key=lambda s: (self.stages[s].seconds, -s))

    @property
    def rate(self) -> float:
        """Requests/s of the configuration: `throughput`, or what the slowest stage admits."""
        if self.throughput is not None:
            return self.throughput
        return 1.0 / self.stages[self.bottleneck].seconds

    @property
    def times(self) -> tuple[float, ...]:
        """Median seconds of each stage."""
        return tuple(stage.seconds for stage in self.stages)


def comparable_rates(first: Observation, second: Observation) -> tuple[float, float]:
    """Requests/s of two windows, told of both in the same way.

    What the slowest stage admits is up to a fifth more than what came through, since stages wait
    for one another: one window's `throughput` beside another one's slowest stage says nothing.
    """
    if first.throughput is not None and second.throughput is not None:
        return first.throughput, second.throughput
    return 1.0 / max(first.times), 1.0 / max(second.times)
