"""A recurrence (`recurrent.recurrence`) as a kernel, before it is scheduled.

`recur` gives the loops without vectors: right, slow, and what TVM makes of it when no one schedules
it. They bear their parameters (`recurrence_of`), of which `select.schedule_kernel` makes the kernel
for a target: `recurrent.cpu` or `recurrent.gpu`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tvm_hetero.kernels.recurrent.frame import RecurrentFrame, RecurrentTile, frame_of
from tvm_hetero.kernels.recurrent.lengths import check_lengths
from tvm_hetero.kernels.recurrent.recurrence import (
    Recurrence,
    from_text,
    require_valid,
    to_text,
)
from tvm_hetero.kernels.recurrent.steps import RecurrentLoops, RecurrentSteps
from tvm_hetero.kernels.tir.index_values import FLOPS, VALUES
from tvm_hetero.kernels.tir.kernel_attr import KERNEL_ATTR, RECURRENT, kernel_parameters
from tvm_hetero.kernels.tir.statements import function

if TYPE_CHECKING:
    from tvm import tirx

_OPAQUE = 8


def recur(r: Recurrence) -> tirx.PrimFunc:
    """The kernel of one direction, not scheduled.

    Parameters
    ----------
    r
        What it computes.

    Returns
    -------
    tirx.PrimFunc
        Its parameters: `recurrent.tensors.RecurrentTensors`.

    Raises
    ------
    ModelError
        There is no such kernel.
    """
    require_valid(r)
    frame = frame_of(r, RecurrentTile())
    attrs = {
        "op_pattern": _OPAQUE,
        FLOPS: r.flops,
        KERNEL_ATTR: {"name": RECURRENT, "parameters": to_text(r)},
    }
    lengths = frame.tensors.lengths
    if lengths is not None:  # measured with sequences of all steps
        place = [param.same_as(lengths) for param in frame.tensors.params].index(True)
        attrs[VALUES] = json.dumps({place: r.steps})
    return written_out(frame, RecurrentLoops()).with_attrs(attrs)


def written_out(frame: RecurrentFrame, loops: RecurrentLoops) -> tirx.PrimFunc:
    """The kernel of a frame for a CPU, which refuses lengths that are none."""
    body = [*check_lengths(frame), *RecurrentSteps(frame, loops).body()]
    tensors = frame.tensors
    return function(tensors.params, body, RECURRENT, tensors.written, frame.scratch.buffers)


def recurrence_of(func: tirx.PrimFunc) -> Recurrence | None:
    """The parameters of a recurrent kernel; None for any other kernel."""
    value = kernel_parameters(func, RECURRENT)
    return None if value is None else from_text(str(value["parameters"]))
