"""Which rule schedules a kernel for a target."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

import tvm
from tvm import s_tir, tirx

from .gpu import schedule_gpu
from .rules import CPU_RULES
from .rules import Rule as CpuRule
from .vector import cores, vector_unit

if TYPE_CHECKING:
    from tvm.target import Target

    Attempt = tuple[str, Callable[[], tirx.PrimFunc]]

SCHEDULED = "tirx.is_scheduled"
# Which rule scheduled a function; `DEFAULT` where none fitted and it is TVM's own loop nest.
RULE = "tvm_hetero.rule"
DEFAULT = "default"


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
        The scheduled function, marked ``tirx.is_scheduled`` and with the rule's name as
        ``tvm_hetero.rule`` (`rule_of`).
    """
    if func.attrs is not None and func.attrs.get(SCHEDULED):
        return func
    attempts = _on_cpu if str(target.kind.name) == "llvm" else _on_gpu
    return _first_that_works(func, attempts(func, target))


def rule_of(func: tirx.PrimFunc) -> str:
    """The name of the rule that scheduled a kernel, `DEFAULT` where none did."""
    value = func.attrs.get(RULE) if func.attrs is not None else None
    return DEFAULT if value is None else str(value)


def _on_gpu(func: tirx.PrimFunc, target: Target) -> Iterator[Attempt]:
    yield "dlight", lambda: schedule_gpu(func, target, specialised=True)
    yield "dlight fallback", lambda: schedule_gpu(func, target, specialised=False)


def _on_cpu(func: tirx.PrimFunc, target: Target) -> Iterator[Attempt]:
    for name, rule in CPU_RULES.items():
        yield name, partial(_apply, rule, func, target)


def _apply(rule: CpuRule, func: tirx.PrimFunc, target: Target) -> tirx.PrimFunc:
    sch = s_tir.Schedule(tvm.IRModule({"main": func}))
    if not rule(sch, vector_unit(target), cores(target)):
        raise ValueError("another family's kernel")
    return sch.mod["main"]


def _first_that_works(func: tirx.PrimFunc, attempts: Iterator[Attempt]) -> tirx.PrimFunc:
    for name, attempt in attempts:
        try:
            return attempt().with_attr(SCHEDULED, True).with_attr(RULE, name)
        # A rule that does not fit leaves no trace: it worked on a copy. Any exception counts:
        # TVM's schedule primitives raise whatever the C++ check or the FFI raises, and a
        # kernel that is merely slow beats a model that cannot be compiled.
        except Exception:
            continue
    return func
