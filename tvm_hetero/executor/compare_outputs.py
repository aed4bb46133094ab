"""Whether executors of one model compute the same.

Variants and divisions of a model are run side by side anyway, to keep the quickest. Devices, copies
and orders are others in each, and so are kernels where devices are of other targets. So where their
outputs differ by more than rounding, one of them is wrong. Which one, this cannot know; and what is
wrong in all of them is not seen.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from tvm_hetero.artifact.executable import Executable
from tvm_hetero.errors import OutputWarning, RunError
from tvm_hetero.executor.executor import Executor
from tvm_hetero.executor.relative_error import Arrays, largest_relative_error
from tvm_hetero.executor.tensors import as_array

ALIKE, ALIKE_NARROW = 1e-2, 0.1
"""The largest difference that rounding may make, as a share of an output's largest value; the
second one where tasks are in bfloat16, which is off by 0.4 % of each value."""


def compare_outputs(executors: Mapping[str, Executor], alike: float = ALIKE) -> float | None:
    """The largest difference between the outputs of executors, on the same random inputs.

    Parameters
    ----------
    executors : of one model, by the names that a warning gives them.
    alike : an `OutputWarning` is given for more.

    Returns
    -------
    float or None
        See `tvm_hetero.executor.relative_error`; None where there is no memory for states of a run
        beside those of others.
    """
    first, *others = executors
    inputs = executors[first].inputs_that_run()
    expected = _outputs(executors[first], inputs)
    worst = 0.0
    for name in others:
        outputs = _outputs(executors[name], inputs)
        if expected is None or outputs is None:
            return None
        found = largest_relative_error(expected, outputs)
        if found > alike:
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


def alike_limit(executable: Executable) -> float:
    """What may differ between executors of such an artifact."""
    narrow = executable.precision is not None and executable.precision.tasks
    return ALIKE_NARROW if narrow else ALIKE


def _outputs(executor: Executor, inputs: Mapping[str, Any]) -> Arrays | None:
    state = None
    if executor.states:
        try:
            state = executor.new_state()
        except RunError:
            return None
    return [as_array(value) for value in executor.run(inputs, state=state)]
