"""Memory that an executor keeps for the inputs of a run, since most arrays are copied anyway.

NumPy's arrays mostly begin where kernels cannot take them (`tvm_hetero.executor.tensors`), and to
make a tensor for the copy takes longer than a small model runs. So sets of tensors are kept, one
for each run that is under way at once, with views of NumPy's on the same memory: an array's
elements are copied by one assignment.

A set is used again when its run has ended well, as then all workers have left it. That is safe only
where no output can be an input: not where a step calls a function, which may return its argument,
nor where the plan gives an input back. After an error the set is dropped, since a kernel that was
cut off may read it still.

All else is read the long way (`tvm_hetero.executor.inputs`), by which what is wrong is refused.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
import tvm_ffi

from tvm_hetero.executor.inputs import device_of_slot
from tvm_hetero.executor.tensors import HOST, is_wrapped, numpy_knows
from tvm_hetero.plan.model import InputPlan, Plan, StepKind

# Up to here a copy takes no longer than wrapping.
_SMALL = 64 * 1024
# The most that is kept for one run, bytes.
_MOST = 4 * 1024 * 1024


@dataclass(frozen=True, eq=False)
class StagedInputs:
    """Tensors of all inputs in the plan's order, as tvm-ffi's array, and NumPy's views of them."""

    tensors: Any
    views: tuple[np.ndarray[Any, Any], ...]


class Staging:
    """Sets of input tensors for one plan; for any thread."""

    def __init__(self, plan: Plan) -> None:
        # (name, shape, type, whether it is too large to be copied without need)
        self._rows: list[tuple[str, tuple[int, ...], np.dtype[Any], bool]] = []
        self._is_usable = _is_usable(plan)
        self._free: list[StagedInputs] = []
        if not self._is_usable:
            return
        for row in plan.inputs:
            dtype = np.dtype(row.type.dtype)
            self._rows.append((row.name, row.type.shape, dtype, _nbytes(row) > _SMALL))

    def fill(self, values: object) -> StagedInputs | None:
        """A set that holds the values of a request.

        None where they are to be read the long way: what is not NumPy's, or not just as the plan
        says, and what needs no copy.
        """
        rows = self._rows
        if not self._is_usable or type(values) is not dict or len(values) != len(rows):
            return None
        arrays = []
        for name, shape, dtype, is_large in rows:
            array = values.get(name)
            if type(array) is not np.ndarray or array.dtype != dtype or array.shape != shape:
                return None
            if is_large and is_wrapped(array):
                return None
            arrays.append(array)
        staged = self._take()
        for view, array in zip(staged.views, arrays, strict=True):
            view[...] = array
        return staged

    def give_back(self, staged: StagedInputs) -> None:
        """Let a set be used again, of a run that has ended well."""
        self._free.append(staged)

    def _take(self) -> StagedInputs:
        try:
            return self._free.pop()
        except IndexError:
            shapes = [(shape, dtype.name) for _, shape, dtype, _ in self._rows]
            return _make(shapes)


def _make(shapes: Sequence[tuple[tuple[int, ...], str]]) -> StagedInputs:
    tensors = [tvm.runtime.empty(shape, dtype) for shape, dtype in shapes]
    return StagedInputs(tvm_ffi.Array(tensors), tuple(np.from_dlpack(each) for each in tensors))


def _is_usable(plan: Plan) -> bool:
    """Whether a run's inputs can be in memory of ours that the next one uses again."""
    returned = {output.slot for output in plan.outputs}
    return (
        plan.batch == 1
        and all(step.kind != StepKind.CALL for step in plan.steps)
        and all(
            device_of_slot(plan, row.slot) == HOST
            and numpy_knows(row.type.dtype)
            and row.slot not in returned
            and not row.is_state
            for row in plan.inputs
        )
        and sum(_nbytes(row) for row in plan.inputs) <= _MOST
    )


def _nbytes(row: InputPlan) -> int:
    return math.prod(row.type.shape) * np.dtype(row.type.dtype).itemsize
