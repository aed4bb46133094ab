"""How far a quantised network's outputs are from those of the float model, and what is allowed.

The float model is run by ONNX Runtime, as its calibration is: none of its kernels is compiled for
that. Ours differ from it by roundings of float32, which are a thousandth of a code's.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from tvm_hetero.devices.target import device_target
from tvm_hetero.errors import UsageError
from tvm_hetero.frontends.onnx.post_training import float_outputs
from tvm_hetero.passes.io_tasks import host_device
from tvm_hetero.pipeline.job import Job
from tvm_hetero.pipeline.options import PartitionOptions
from tvm_hetero.pipeline.precision.network_runner import NetworkRunner
from tvm_hetero.pipeline.precision.output_error import error_by, metric_name
from tvm_hetero.pipeline.precision.rare_errors import CONFIDENCE, exceeding_share, rare_error
from tvm_hetero.problem.precision_promise import INT8, PrecisionPromise
from tvm_hetero.util.text_tables import count_noun

# Random inputs on which errors in bytes are measured: ranges are those of such ones.
RANDOM_KINDS = ("normal",)
# Bytes of inputs and outputs that are held at once; one run's, if they are more.
_HELD = 1 << 26

Inputs = Sequence[Mapping[str, Any]]
Arrays = list["np.ndarray[Any, Any]"]


def measure_error(
    codes: Job, options: PartitionOptions, model: onnx.ModelProto, inputs: Inputs, held_out: Inputs
) -> PrecisionPromise:
    """The errors on inputs for calibration and on others, as a promise without tasks.

    Parameters
    ----------
    codes : a job of the quantised module, lowered.
    options : its accuracy, metric and seed.
    model : the float model.
    inputs, held_out : at least one, and any.

    Raises
    ------
    UsageError
        If outputs of the float model are no numbers, data decide how large they are, or the memory
        that is free does not hold the tensors of a run.
    """
    device = codes.platform.device(host_device(codes.platform))
    runner = NetworkRunner(codes.tasks, {}, device_target(device))
    runner.check_memory(1)
    measured, others = (
        list(_errors(runner, options, model, values)) for values in (inputs, held_out)
    )
    promised = options.accuracy is not None
    return PrecisionPromise(
        INT8,
        options.accuracy,
        metric_name(options.metric),
        measured=max(measured),
        held_out=max(others, default=None),
        inputs=len(inputs),
        held_out_inputs=len(held_out),
        seed=None if options.calibration else options.seed,
        kinds=() if options.calibration else RANDOM_KINDS,
        rare=rare_error(others) if promised and others else None,
        exceeding=exceeding_share(len(others), 1) if promised else None,
        confidence=CONFIDENCE if promised else None,
    )


def _errors(
    runner: NetworkRunner, options: PartitionOptions, model: onnx.ModelProto, inputs: Inputs
) -> Iterator[float]:
    for place, expected in enumerate(_expected(model, inputs, runner)):
        found = runner.outputs(inputs[place])
        _check(expected, found)
        yield error_by(options.metric, expected, found)


def _expected(model: onnx.ModelProto, inputs: Inputs, runner: NetworkRunner) -> Iterator[Arrays]:
    """The float model's outputs for each of the inputs, no more of both at once than `_HELD`.

    A child for each input would read the weights each time.
    """
    count = max(1, _HELD // max(1, runner.end_bytes))
    for start in range(0, len(inputs), count):
        yield from float_outputs(model, inputs[start : start + count])


def _check(expected: Arrays, found: Arrays) -> None:
    """Refuse outputs that say nothing of an error."""
    if [array.shape for array in expected] != [array.shape for array in found]:
        raise UsageError(
            "precision int8: data decide how large the outputs are, so that they cannot be "
            "compared; take float32, or cut the model before that"
        )
    if any(array.dtype.kind == "f" and np.isnan(array).any() for array in expected):
        raise UsageError(
            "calibration: outputs are not numbers (NaN) in float32 already, so no error can be "
            "measured; give inputs that the model is for (--calibration X.npz)"
        )


def refuse_error(promise: PrecisionPromise) -> None:
    """Refuse outputs that are no numbers, or further off than the promise allows.

    Raises
    ------
    UsageError
        Says the errors, and what there is to do.
    """
    worst = max(promise.measured or 0.0, promise.held_out or 0.0, promise.rare or 0.0)
    if math.isfinite(worst) and (promise.accuracy is None or worst <= promise.accuracy):
        return
    said = f"{promise.measured:.3g} on {count_noun(promise.inputs, 'input')} for calibration"
    if promise.held_out is not None:
        said += f", {promise.held_out:.3g} on {count_noun(promise.held_out_inputs, 'other')}"
    if promise.rare is not None:
        said += f", {promise.rare:.3g} expected of one in a thousand"
    allowed = "" if promise.accuracy is None else f"; {promise.accuracy:g} is allowed"
    random = " (these were random ones)" if promise.seed is not None else ""
    raise UsageError(
        f"precision int8: the error of the outputs ({promise.metric}) is {said}{allowed}. Give "
        f"more inputs that the model is for (--calibration X.npz){random}, allow a larger error "
        "(--accuracy), or take --precision auto, which keeps an error by bfloat16"
    )
