"""How a kernel that computes several elements at once is scheduled.

`stack_elements` puts its elements into one tensor, so that the rule of a convolution or of a
product schedules them as images, rows or matrices; the loops over them then are inside of those
over the weights (`packed`, `gemm`). Afterwards each element has tensors of its own again
(`tir.unstack_buffers`).

Where that cannot be done, each element's part is scheduled by itself: as fast as single calls.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from tvm_hetero.kernels.tir.batched import (
    BATCHED_ATTR,
    batch_of_kernel,
    params_of,
    repeat_kernel,
    shared_of,
    unbatch_kernel,
)
from tvm_hetero.kernels.tir.implementation_attr import (
    DEFAULT,
    RULE_ATTR,
    implementation_of,
    without_implementation,
)
from tvm_hetero.kernels.tir.stacked import stack_elements
from tvm_hetero.kernels.tir.unstack_buffers import unstack_elements

if TYPE_CHECKING:
    from tvm import tirx
    from tvm.target import Target

    Schedule = Callable[[tirx.PrimFunc, Target], tirx.PrimFunc]

# The rules that know elements as images, rows or matrices.
_RULES = ("packed", "gemm", "pairs", "amx", "groupwise", "winograd")


def schedule_batched(func: tirx.PrimFunc, target: Target, schedule: Schedule) -> tirx.PrimFunc:
    """A batched kernel, scheduled for a target: what `select.schedule_kernel` makes of it.

    Parameters
    ----------
    func
        The kernel, not scheduled.
    target
        For which target.
    schedule
        How any other kernel is scheduled.
    """
    if implementation_of(func) != DEFAULT and str(target.kind.name) == "llvm":
        # Whatever TVM raises (see `select`), there is another way to compute the same.
        with contextlib.suppress(Exception):
            return _together(func, target, schedule)
    return repeat_kernel(
        schedule(unbatch_kernel(func), target), batch_of_kernel(func), shared_of(func)
    )


def _together(func: tirx.PrimFunc, target: Target, schedule: Schedule) -> tirx.PrimFunc:
    """The kernel in one nest of loops.

    Raises
    ------
    Exception
        If that cannot be done.
    """
    one = without_implementation(unbatch_kernel(func))
    shared = shared_of(func)
    done = schedule(stack_elements(one, batch_of_kernel(func), shared), target)
    rule = None if done.attrs is None else done.attrs.get(RULE_ATTR)
    if rule not in _RULES:
        raise ValueError(f"scheduled as {rule}: its elements are no images, rows or matrices")
    places = zip(done.params, params_of(func), strict=True)
    elements = {
        param: [func.params[at] for at in place]
        for i, (param, place) in enumerate(places)
        if i not in shared
    }
    return unstack_elements(done, elements, list(func.params)).with_attr(
        BATCHED_ATTR, func.attrs[BATCHED_ATTR]
    )
