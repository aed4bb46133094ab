"""Samples of a problem whose costs are wrong: every cost off by up to a given share.

In sample s, task t takes (1 + u) times its cost on device d, whatever the number of elements, with
u[s, t, d] drawn independently and uniformly from [-r, r]: a cost is measured (or modelled) once for
a task and a device, so that is what the error belongs to. Links stay as they are. One link carries
many copies, so an error in its figures is no noise that copies average out: it shifts all of them,
belongs in the platform, and would change the routes, which a plan has fixed.

Numbers come from `numpy.random.RandomState`, whose stream is frozen (NEP 19): the same seed gives
the same samples with every version. Sample s depends on seed, stream and s alone, so more samples
are the same samples and some more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from tvm_hetero.errors import UsageError
from tvm_hetero.problem.model import Problem
from tvm_hetero.views.array_types import FloatArray

# What plans are fitted to, and what they are judged on.
TRAINING, FRESH = 0, 1
MOST = 100_000


@dataclass(frozen=True)
class Samples:
    """`count` samples of costs that are off by up to the share `perturbation`.

    `stream` keeps what plans are fitted to (`TRAINING`) apart from what they are judged on
    (`FRESH`).

    Raises
    ------
    UsageError
        When it is made: a share outside [0, 1), or too few or too many samples.
    """

    perturbation: float
    count: int
    seed: int = 0
    stream: int = FRESH

    def __post_init__(self) -> None:
        if not 0 <= self.perturbation < 1:
            raise UsageError(
                "robust: expected by which share costs may be off, from 0 to below 1 "
                f"(0.1 for 10 %), got {self.perturbation}"
            )
        if not 1 <= self.count <= MOST:
            raise UsageError(f"robust: expected 1 to {MOST} samples, got {self.count}")

    def factors(self, problem: Problem, number: int) -> FloatArray:
        """1 + u of sample `number`, by position of the task and of the device."""
        shape = len(problem.graph.tasks), len(problem.platform.devices)
        state = np.random.RandomState([self.seed, self.stream, number])
        drawn: FloatArray = state.uniform(-1.0, 1.0, shape)
        return 1.0 + self.perturbation * drawn

    def perturbed(self, problem: Problem, number: int) -> Problem:
        """The problem with the costs of sample `number`."""
        factor = self.factors(problem, number).tolist()
        index, devices = problem.graph.index, problem.platform.index
        costs = {
            task: {d: cost.scaled(factor[index[task]][devices[d]]) for d, cost in row.items()}
            for task, row in problem.costs.items()
        }
        return replace(problem, costs=costs)

    def problems(self, problem: Problem) -> Iterator[Problem]:
        """The problem of every sample."""
        return (self.perturbed(problem, number) for number in range(self.count))
