"""What a plan promises of its accuracy: which tasks are not in float32, and what that does.

Written into an artifact (docs/formats.md, *Precision*), and printed by ``tvm-hetero show ARTIFACT
--kernels``. How tasks are chosen: docs/precision.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tvm_hetero.util.fields import Fields

FLOAT32, BFLOAT16, INT8, AUTO = PRECISIONS = ("float32", "bfloat16", "int8", "auto")


@dataclass(frozen=True)
class PrecisionPromise:
    """How a network's tasks are computed, and how far its outputs are from those of float32.

    Errors are as `metric` counts them; None where they were not measured.

    Attributes
    ----------
    precision : what was asked for, `BFLOAT16`, `INT8` or `AUTO`.
    accuracy : the largest error that was allowed; None where what comes is taken.
    metric : what an error is: the largest relative one of outputs, or the name of a function.
    tasks : those in bfloat16 or that multiply bytes, and the error that each makes alone.
    predicted : the error of all, from those alone.
    measured, held_out : the error of all, on inputs for calibration and on others.
    inputs, held_out_inputs : how many there were of these.
    seed, kinds : of random inputs; None and nothing where inputs were given.
    rare : the error of one input in a thousand, as the tail of errors on others has it.
    exceeding, confidence : the share of inputs drawn like the others whose error may be above
        `accuracy`, and how sure that is; None where nothing is promised.
    seconds, seconds_float32 : sums over all tasks, each by itself on the quickest device.
    gain_bound : seconds that no choice within the same budget can save more than.
    reason : why all tasks are in float32, where that is no matter of accuracy.
    """

    precision: str
    accuracy: float | None = None
    metric: str = "largest relative error"
    tasks: Mapping[str, float | None] = field(default_factory=dict)
    predicted: float | None = None
    measured: float | None = None
    held_out: float | None = None
    inputs: int = 0
    held_out_inputs: int = 0
    seed: int | None = None
    kinds: tuple[str, ...] = ()
    rare: float | None = None
    exceeding: float | None = None
    confidence: float | None = None
    seconds: float | None = None
    seconds_float32: float | None = None
    gain_bound: float | None = None
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The document, by the names of the attributes; without what is not known."""
        row: dict[str, Any] = {"precision": self.precision, "metric": self.metric}
        for name in (*_NUMBERS, *_COUNTS):
            value = getattr(self, name)
            if value is not None:
                row[name] = value
        if self.kinds:
            row["kinds"] = list(self.kinds)
        if self.reason:
            row["reason"] = self.reason
        return row | {"tasks": dict(self.tasks)}

    @classmethod
    def from_dict(cls, data: object, where: str = "precision") -> PrecisionPromise:
        """Read a document.

        Raises
        ------
        FormatError
            If it says something unknown or of the wrong kind.
        """
        optional = [*_NUMBERS, *_COUNTS, "reason", "kinds"]
        row = Fields(data, where, ["precision", "metric", "tasks"], optional)
        tasks = row.fields("tasks", optional=None)
        precision = row.choice("precision", PRECISIONS[1:])
        if precision == AUTO:
            row.number("accuracy")  # which it promises
        known: dict[str, Any] = {n: row.number(n) for n in _NUMBERS if row.has(n)}
        known |= {n: row.integer(n, least=0) for n in _COUNTS if row.has(n)}
        return cls(
            precision=precision,
            metric=row.text("metric"),
            tasks={n: tasks.number(n) if tasks.has(n) else None for n in tasks.data},
            reason=row.text("reason", ""),
            kinds=row.names("kinds") if row.has("kinds") else (),
            **known,
        )


_NUMBERS = (
    "accuracy", "predicted", "measured", "held_out", "rare", "exceeding", "confidence",
    "seconds", "seconds_float32", "gain_bound",
)  # fmt: skip
_COUNTS = ("inputs", "held_out_inputs", "seed")
