"""What a partition is asked for, in one value."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tvm_hetero.errors import UsageError
from tvm_hetero.problem.objective_kinds import Objective
from tvm_hetero.problem.precision_promise import AUTO, FLOAT32, INT8, PRECISIONS
from tvm_hetero.util.untrusted_names import printable

if TYPE_CHECKING:
    from tvm_hetero.cost_models.protocol import CostModel

# A search ends within this share of the least value: costs are not measured more exactly.
MEASURED_GAP = 1e-3
# For the solver, unless more is asked for; and where the costs are estimates.
SECONDS = 5.0
QUICK_SECONDS = 2.0
# The error that outputs may have with precision auto, unless another one is given.
ACCURACY = 1e-2
# Random inputs that must keep it: then, to 95 % at least, no more than 1.7 % of others do not.
CHECKS = 300


@dataclass(frozen=True)
class PartitionOptions:
    """How a module is divided over the devices of a platform.

    Attributes
    ----------
    objective : what is minimised, and the elements of a batch.
    solver : the name of a solver (``tvm_hetero.solvers.names()``).
    time_limit : seconds for the solver. It is `SECONDS` unless something else is asked for; where
        the gap that a plan reports is large, more may help.
    gap : it may end where its plan is proven to be within this share of the best.
    seed : of the solver.
    cost_model : a cost model, or the name of one (``profiled``, ``profiled-alone``,
        ``quick``, ``analytical``, ``table:FILE``).
    respect_annotations : run what the model's own annotations name a device for on that device
        (`tvm_hetero.passes.pins`); otherwise they say nothing.
    plain_sums : sum convolutions up as they are written, never by Winograd's tiles: slower, with
        errors about a tenth (`tvm_hetero.kernels.convolution.winograd.kernel`).
    probabilities : how often conditions of ``If`` hold, from 0 to 1, by the name of the If, of the
        condition or of what is chosen. Tasks of branches then cost what they cost on average
        (`tvm_hetero.passes.branch_probabilities`).
    precision : ``float32``; ``bfloat16``, where that is quicker; ``int8``, a model of an ONNX file
        quantised (`tvm_hetero.pipeline.int8_module`); or ``auto``, the tasks that gain
        the most in bfloat16 while outputs are within `accuracy` (docs/precision.md).
    accuracy : the largest error of the outputs. With ``auto``: `ACCURACY` unless it is given; with
        ``int8``: more is refused, where it is given.
    metric : what an error is: a function of the outputs of float32 and others (two lists of arrays)
        that gives a number; None: the largest relative error.
    calibration : inputs (by name) on which errors, and ranges for ``int8``, are measured; random
        ones if there are none.
    checks : how many random inputs, held out, must keep an accuracy before it is promised; of given
        inputs it is every second one.
    """

    objective: Objective = field(default_factory=Objective)
    solver: str = "auto"
    time_limit: float = SECONDS
    gap: float = MEASURED_GAP
    seed: int = 0
    cost_model: str | CostModel = "profiled"
    respect_annotations: bool = False
    plain_sums: bool = False
    probabilities: Mapping[str, float] = field(default_factory=dict)
    precision: str = FLOAT32
    accuracy: float | None = None
    metric: Callable[[Any, Any], float] | None = None
    calibration: Sequence[Mapping[str, Any]] = ()
    checks: int = CHECKS

    def __post_init__(self) -> None:
        self._check_precision()
        for name, value in self.probabilities.items():
            if not 0 <= value <= 1:  # NaN is neither
                raise UsageError(
                    f"the probability of {printable(name)!r} is {value}; expected a number from 0 "
                    "(it never holds) to 1 (it always does)"
                )

    def _check_precision(self) -> None:
        if self.precision not in PRECISIONS:
            raise UsageError(
                f"precision {self.precision!r}: expected one of {', '.join(PRECISIONS)}"
            )
        if self.accuracy is not None and self.precision not in (AUTO, INT8):
            raise UsageError(
                f"accuracy {self.accuracy} is for precision auto or int8, not {self.precision}; "
                "leave it out"
            )
        if self.accuracy is not None and not 0 < self.accuracy < math.inf:
            raise UsageError(
                f"accuracy {self.accuracy}: expected an error above 0 that outputs may have, such "
                f"as {ACCURACY}"
            )
        if self.checks < 1:
            raise UsageError(
                f"checks {self.checks}: expected a number of inputs from 1 on, such as {CHECKS}"
            )
        if self.precision == FLOAT32 and (self.metric is not None or self.calibration):
            raise UsageError(
                "metric and calibration are for precision auto, bfloat16 or int8; leave them out"
            )

    @property
    def largest_error(self) -> float | None:
        """The error that outputs may have; None where nothing is promised of it."""
        if self.precision != AUTO:
            return self.accuracy
        return ACCURACY if self.accuracy is None else self.accuracy

    @classmethod
    def quick(cls, **others: Any) -> PartitionOptions:
        """For a plan in seconds: few kernels are measured (`tvm_hetero.cost_models.quick`), and the
        solver has `QUICK_SECONDS`; with these `others` in place of defaults.
        """
        return cls(**{"cost_model": "quick", "time_limit": QUICK_SECONDS, **others})
