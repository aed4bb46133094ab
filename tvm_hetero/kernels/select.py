"""Which rule schedules a kernel for a target."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import tvm
from tvm import s_tir, tirx

from .generic import schedule_generic
from .gpu import schedule_gpu
from .packed import schedule_packed
from .vector import cores, vector_unit

if TYPE_CHECKING:
    from tvm.target import Target

SCHEDULED = "tirx.is_scheduled"


def schedule_kernel(func: tirx.PrimFunc, target: Target) -> tirx.PrimFunc:
    """The kernel, scheduled for ``target``.

    Pure and deterministic: the same function and target give structurally the same schedule.
    Never fails: where no rule fits, the generic treatment; where that fails too, the function
    as it came. A function that is scheduled already comes back as it is.

    Parameters
    ----------
    func
        A fused PrimFunc of a module that `LowerToTasks` made.
    target
        An llvm or a GPU target (``cuda``, ``rocm``, ``vulkan``, ``metal``, ``opencl``).
        ``num-cores`` says how many cores one kernel may use (default 1).

    Returns
    -------
    tirx.PrimFunc
        The scheduled function, marked ``tirx.is_scheduled``.
    """
    if func.attrs is not None and func.attrs.get(SCHEDULED):
        return func
    if str(target.kind.name) != "llvm":
        return _first_that_works(
            func,
            [
                lambda: schedule_gpu(func, target, specialised=True),
                lambda: schedule_gpu(func, target, specialised=False),
            ],
        )
    return _first_that_works(func, [lambda: _packed(func, target), lambda: _generic(func, target)])


def _packed(func: tirx.PrimFunc, target: Target) -> tirx.PrimFunc:
    sch = s_tir.Schedule(tvm.IRModule({"main": func}))
    if not schedule_packed(sch, vector_unit(target), cores(target)):
        raise ValueError("no packed kernel")
    return sch.mod["main"]


def _generic(func: tirx.PrimFunc, target: Target) -> tirx.PrimFunc:
    sch = s_tir.Schedule(tvm.IRModule({"main": func}))
    schedule_generic(sch, cores(target))
    return sch.mod["main"]


def _first_that_works(
    func: tirx.PrimFunc, rules: list[Callable[[], tirx.PrimFunc]]
) -> tirx.PrimFunc:
    for rule in rules:
        try:
            return rule().with_attr(SCHEDULED, True)
        # A rule that does not fit leaves no trace: it worked on a copy. Any exception counts:
        # TVM's schedule primitives raise whatever the C++ check or the FFI raises, and a
        # kernel that is merely slow beats a model that cannot be compiled.
        except Exception:
            continue
    return func
