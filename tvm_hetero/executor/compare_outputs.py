"""Whether executors of one model compute the same.

Variants and divisions of a model are run side by side anyway, to keep the quickest. They share the
model and nothing else: other devices, kernels, copies and orders. So where their outputs differ by
more than rounding, one of them is wrong. Which one, this cannot know.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tvm_hetero.errors import OutputWarning
from tvm_hetero.executor.executor import Executor
from tvm_hetero.executor.tensors import as_array

ALIKE = 1e-2
"""The largest difference, as a share of an output's largest value, that rounding may make."""

_Arrays = Sequence[np.ndarray[Any, Any]]


def compare_outputs(executors: Mapping[str, Executor]) -> float:
    """The largest difference between the outputs of executors, on the same random inputs.

    Parameters
    ----------
    executors : of one model, by the names that a warning gives them.

    Returns
    -------
    float
        As a share of the largest value of that output; infinite where one of them has a number and
        the other none. Above `ALIKE` an `OutputWarning` is given.
    """
    first, *others = executors
    inputs = executors[first].inputs_that_run()
    expected = _outputs(executors[first], inputs)
    worst = 0.0
    for name in others:
        found = relative_difference(_outputs(executors[name], inputs), expected)
        if found > ALIKE:
            warnings.warn(
                f"the outputs of {name} differ from those of {first} by {found:.1%} of the largest "
                "value, on the same inputs; one of them is wrong, unless the model turns rounding "
                "into other numbers. Compare both with the model's own framework ('tvm-hetero "
                "bench' does with ONNX Runtime) before you use them",
                OutputWarning,
                stacklevel=3,
            )
        worst = max(worst, found)
    return worst


def relative_difference(found: _Arrays, expected: _Arrays) -> float:
    """The largest difference of two sets of outputs, as a share of the largest value of its output.

    The same infinities, and NaN in the same places, are no difference.
    """
    return max(map(_difference, found, expected), default=0.0)


def _outputs(executor: Executor, inputs: Mapping[str, Any]) -> _Arrays:
    state = executor.new_state() if executor.states else None
    return [as_array(value) for value in executor.run(inputs, state=state)]


def _difference(found: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> float:
    if found.shape != expected.shape:
        return math.inf
    mine, other = found.astype(np.float64), expected.astype(np.float64)
    finite = np.isfinite(other)
    same = np.array_equal(mine[~finite], other[~finite], equal_nan=True)
    if not same or not np.isfinite(mine[finite]).all():
        return math.inf
    scale = float(np.abs(other[finite]).max(initial=0.0))
    off = float(np.abs(mine[finite] - other[finite]).max(initial=0.0))
    return off / scale if scale > 0 else (math.inf if off > 0 else 0.0)
