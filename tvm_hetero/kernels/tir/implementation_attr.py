"""How a kernel is to be computed on a device, written on the kernel itself.

There are up to four ways to run a kernel on a CPU, and they compute the same:

    rule       what a family's schedule rule makes of it (`rules`); every kernel has this one
    default    TVM's own loop nest, nothing scheduled at all
    tuned      what a search found for this very kernel: a trace of MetaSchedule's
    direct     a convolution summed up as it is written, where its rule is `winograd`

Which one is the fastest is measured (`tvm_hetero.cost_models.profiled`) and then written on the
*unscheduled* function, in two attributes. So a module says by itself how it is to be built, and
what is built is what was measured: no database is asked.

    tvm_hetero.implementation    the name above; absent where it is the rule
    tvm_hetero.trace             the trace, as JSON text; for tuned only
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tvm_hetero.problem.cost import IMPLEMENTATIONS

if TYPE_CHECKING:
    from tvm import tirx

RULE, DEFAULT, TUNED, DIRECT = IMPLEMENTATIONS

IMPLEMENTATION_ATTR = "tvm_hetero.implementation"
TRACE_ATTR = "tvm_hetero.trace"
# Which rule scheduled a function. Set by `select.schedule_kernel`, on what it returns.
RULE_ATTR = "tvm_hetero.rule"


def implementation_of(func: tirx.PrimFunc) -> str:
    """How a kernel is to be computed: one of `IMPLEMENTATIONS`."""
    return _text(func, IMPLEMENTATION_ATTR) or RULE


def trace_of(func: tirx.PrimFunc) -> str | None:
    """The trace of a kernel that is `TUNED`, else None."""
    return _text(func, TRACE_ATTR)


def with_implementation(
    func: tirx.PrimFunc, implementation: str, trace: str | None = None
) -> tirx.PrimFunc:
    """The unscheduled kernel, to be computed in that way.

    Raises
    ------
    ValueError
        If there is no such implementation, or a tuned one comes without its trace.
    """
    if implementation not in IMPLEMENTATIONS:
        raise ValueError(f"implementation {implementation!r}: expected one of {IMPLEMENTATIONS}")
    if implementation == TUNED and trace is None:
        raise ValueError("a tuned implementation needs the trace that makes it")
    func = without_implementation(func)
    if implementation != RULE:
        func = func.with_attr(IMPLEMENTATION_ATTR, implementation)
    return func.with_attr(TRACE_ATTR, trace) if implementation == TUNED else func


def without_implementation(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """The kernel with nothing said about how it is computed, or by which rule it was made."""
    for name in (IMPLEMENTATION_ATTR, TRACE_ATTR, RULE_ATTR):
        if func.attrs is not None and name in func.attrs:
            func = func.without_attr(name)
    return func


def _text(func: tirx.PrimFunc, name: str) -> str | None:
    value = func.attrs.get(name) if func.attrs is not None else None
    return None if value is None else str(value)
