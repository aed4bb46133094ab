"""Every problem of the zoo: networks x platforms x objectives x memories x batches.

There are more than any run has time for, so a run takes a sample; the same seed, the same sample.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import product
from typing import Literal

from benchmarks.scheduling.memory import limited
from benchmarks.scheduling.runner import zoo_case
from tvm_hetero import zoo
from tvm_hetero.problem import Objective, Problem

KINDS: tuple[Literal["latency", "throughput"], ...] = ("latency", "throughput")
# Of the weights, what a device but the first holds: None leaves the memories as they are.
SHARES = (None, 0.5)
BATCHES = (1, 8)


@dataclass(frozen=True)
class ZooCase:
    """One of them, by what it is made of.

    Attributes
    ----------
    share : of all weights, what each device but the first may hold; None: as the platform says.
    batch : elements.
    """

    network: str
    platform: str
    kind: Literal["latency", "throughput"]
    share: float | None = None
    batch: int = 1

    @property
    def name(self) -> str:
        """As a row calls it."""
        words = [f"{self.network} on {self.platform}", self.kind]
        words += [f"batch {self.batch}"] if self.batch > 1 else []
        words += [] if self.share is None else [f"{self.share:.0%} of the weights fit"]
        return ", ".join(words)

    def problem(self) -> Problem:
        """The problem, made anew."""
        made = zoo_case(self.network, self.platform, Objective(self.kind, self.batch))
        return made if self.share is None else limited(made, self.share)


def all_cases() -> list[ZooCase]:
    """All of them, in one order."""
    parts = product(zoo.names(), zoo.platform_names(), KINDS, SHARES, BATCHES)
    return [ZooCase(*part) for part in parts]


def sample_cases(count: int, seed: int) -> list[ZooCase]:
    """So many of them; all, where there are not so many."""
    known = all_cases()
    return random.Random(seed).sample(known, min(count, len(known)))
