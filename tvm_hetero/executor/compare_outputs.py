"""Whether executors of one model compute the same.

Variants and divisions of a model are run side by side anyway, to keep the quickest. They share the
model and nothing else: other devices, kernels, copies and orders. So where their outputs differ by
more than rounding, one of them is wrong. Which one, this cannot know.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from tvm_hetero.errors import OutputWarning
from tvm_hetero.executor.executor import Executor
from tvm_hetero.executor.relative_error import Arrays, largest_relative_error
from tvm_hetero.executor.tensors import as_array

ALIKE = 1e-2
"""The largest difference, as a share of an output's largest value, that rounding may make."""


def compare_outputs(executors: Mapping[str, Executor]) -> float:
    """The largest difference between the outputs of executors, on the same random inputs.

    Parameters
    ----------
    executors : of one model, by the names that a warning gives them.

    Returns
    -------
    float
        See `tvm_hetero.executor.relative_error`. Above `ALIKE` an `OutputWarning` is given.
    """
    first, *others = executors
    inputs = executors[first].inputs_that_run()
    expected = _outputs(executors[first], inputs)
    worst = 0.0
    for name in others:
        found = largest_relative_error(expected, _outputs(executors[name], inputs))
        if found > ALIKE:
            warnings.warn(
                f"the outputs of {name} differ from those of {first} by {found:.3g} of the largest "
                "value, on the same inputs; one of them is wrong, unless the model turns rounding "
                "into other numbers. Compare both with the model's own framework ('tvm-hetero "
                "bench' does with ONNX Runtime) before you use them",
                OutputWarning,
                stacklevel=3,
            )
        worst = max(worst, found)
    return worst


def _outputs(executor: Executor, inputs: Mapping[str, Any]) -> Arrays:
    state = executor.new_state() if executor.states else None
    return [as_array(value) for value in executor.run(inputs, state=state)]
