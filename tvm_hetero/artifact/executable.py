"""What a build gives: plans, libraries and weights, ready to be saved or run.

An executable holds the partition and, beside it, the best single device (the same model on one
device alone): what a partition is measured against, and what runs where it does not win.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tvm_hetero.plan.model import Plan
from tvm_hetero.problem.implementation_choice import Choice
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.precision_promise import PrecisionPromise
from tvm_hetero.problem.schedule import Schedule

PARTITION = "partition"
SINGLE = "single"
# As `Executable.estimated`: costs come from those of the model's other sizes.
INTERPOLATED = "interpolated"


@dataclass(frozen=True)
class Variant:
    """One way to run the model.

    Attributes
    ----------
    plan : what its executor runs.
    libraries : for each device that computes, its compiled kernels; all variants share them.
    """

    plan: Plan
    libraries: Mapping[str, Path]

    @property
    def tasks(self) -> tuple[tuple[str, ...], ...]:
        """Ids of the tasks of each step of the plan; for batches with ``#element`` behind them."""
        return tuple(step.tasks for step in self.plan.steps)


@dataclass(frozen=True)
class Executable:
    """A built model.

    Attributes
    ----------
    variants : `PARTITION`, and `SINGLE` where the best single device is another plan.
    weights : the constants, by the names that the plans use.
    default : the variant that runs unless another is asked for.
    source : where the model came from (path, SHA-256, ...), as far as is known.
    choices : how each kernel is computed on each device.
    decision : why `default` is what it is (`tvm_hetero.executor.choose_variant`); None: not looked
        at.
    module : text of the lowered module (`tvm_hetero.compiler.module_text`) where the plan may be
        made again: the platform has several nodes, one of which may be lost, the costs are
        estimates, or it was built to be adapted (`tvm_hetero.compiler.plan_factory`).
    spare : compiled kernels of devices on which no variant computes; of a model that was built to
        be adapted.
    estimated : the cost model whose estimates the costs are; None: no estimates.
    probabilities : how often conditions hold by which the costs of branches were weighed.
    precision : which tasks are in bfloat16, and what was promised of the outputs; None: no one
        asked for that.
    """

    problem: Problem
    schedule: Schedule
    variants: Mapping[str, Variant]
    weights: Mapping[str, Any]
    default: str = PARTITION
    source: Mapping[str, Any] = field(default_factory=dict)
    choices: tuple[Choice, ...] = ()
    decision: Mapping[str, Any] | None = None
    module: str | None = None
    estimated: str | None = None
    probabilities: Mapping[str, float] = field(default_factory=dict)
    spare: Mapping[str, Path] = field(default_factory=dict)
    precision: PrecisionPromise | None = None

    @property
    def libraries(self) -> dict[str, Path]:
        """The compiled kernels of each device for which there are some."""
        used = (variant.libraries for variant in self.variants.values())
        return {name: path for rows in (*used, self.spare) for name, path in rows.items()}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write this executable as a folder (see `tvm_hetero.artifact.write`)."""
        from tvm_hetero.artifact.write import save_artifact

        save_artifact(self, path)
