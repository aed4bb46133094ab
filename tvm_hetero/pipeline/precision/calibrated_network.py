"""A network and the inputs on which its errors are measured: for calibration, and held out."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvm_hetero.errors import RunError, UsageError
from tvm_hetero.pipeline.precision.network_runner import NetworkRunner
from tvm_hetero.pipeline.precision.output_error import Metric, error_by, metric_name

# Bytes of outputs in float32 of inputs that are held out; those of others are computed each time.
_KEPT = 1 << 28

Inputs = Mapping[str, Any]
Outputs = list["np.ndarray[Any, Any]"]


@dataclass(frozen=True)
class Checked:
    """Errors on inputs that are held out, as far as they were looked at.

    Attributes
    ----------
    errors : of those inputs, in order.
    complete : whether that is all of them.
    """

    errors: tuple[float, ...]
    complete: bool

    @property
    def worst(self) -> float | None:
        """The largest; None where there are none."""
        return max(self.errors, default=None)


class CalibratedNetwork:
    """A network and the inputs on which its errors are measured.

    Parameters
    ----------
    runner : runs it.
    inputs, held_out : for calibration, and others.
    metric : what an error is.
    skips : whether held-out inputs of which float32 makes no numbers are passed over.
    """

    def __init__(
        self,
        runner: NetworkRunner,
        inputs: Sequence[Inputs],
        held_out: Sequence[Inputs],
        metric: Metric | None,
        *,
        skips: bool = False,
    ) -> None:
        self._runner, self._metric, self._held_out = runner, metric, held_out
        self._skips, self._kept, self._room = skips, dict[int, Outputs | None](), _KEPT
        runner.check_memory(len(inputs))
        self._traces = [runner.trace(values) for values in inputs]
        for number, trace in enumerate(self._traces):
            self._check(trace.outputs, f"calibration: input {number}")
        if not skips:
            for number in range(len(held_out)):
                self._expected(number)

    def _check(self, outputs: Outputs, what: str) -> None:
        """Refuse inputs that say nothing of errors, and a metric of which nothing is right."""
        if has_nan(outputs):
            raise UsageError(
                f"{what}: outputs are not numbers (NaN) in float32 already, so no error can be "
                "measured; give inputs that the model is for (--calibration X.npz)"
            )
        error = error_by(self._metric, outputs, outputs)
        if error > 0:
            raise UsageError(
                f"the metric {metric_name(self._metric)!r} gave {error:g} for equal outputs; "
                "expected 0"
            )

    def error(self, chosen: Collection[str]) -> float:
        """The largest error on the inputs for calibration with the `chosen` tasks in bfloat16."""
        found = [
            error_by(self._metric, trace.outputs, self._runner.rerun(trace, chosen))
            for trace in self._traces
        ]
        return max(found, default=0.0)

    def check(self, chosen: Collection[str], limit: float) -> Checked:
        """The errors on inputs that are held out, up to the first one above the limit."""
        errors: list[float] = []
        for number in range(len(self._held_out)):
            expected = self._expected(number)
            if expected is None:
                continue
            found = self._runner.outputs(self._held_out[number], chosen)
            errors.append(error_by(self._metric, expected, found))
            if errors[-1] > limit:
                return Checked(tuple(errors), complete=False)
        return Checked(tuple(errors), complete=True)

    def _expected(self, number: int) -> Outputs | None:
        """The outputs of an input that is held out, in float32; None for one that is skipped."""
        if number in self._kept:
            return self._kept[number]
        outputs = self._in_float32(number)
        size = sum(output.nbytes for output in outputs or ())
        if size <= self._room:
            self._room -= size
            self._kept[number] = outputs
        return outputs

    def _in_float32(self, number: int) -> Outputs | None:
        try:
            outputs = self._runner.outputs(self._held_out[number])
        except RunError:
            if self._skips:
                return None
            raise
        if self._skips and has_nan(outputs):
            return None
        self._check(outputs, f"calibration: held-out input {number}")
        return outputs


def has_nan(outputs: Outputs) -> bool:
    """Whether an output has values that are not numbers."""
    return any(bool(np.isnan(output).any()) for output in outputs if output.dtype.kind == "f")
