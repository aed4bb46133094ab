"""Schedules whose primitives take their arguments as they are.

TVM's Python interface compares every argument of every primitive with its annotation, which it
takes apart again at each call (``tvm.s_tir.schedule._type_checker``). That took longer than the
primitives themselves, of which the rules call hundreds for each kernel of a network. A wrong
argument is refused in C++ as well. Nor is the text of a refusal written out, with the whole
function in it: a rule that does not fit is left for the next one.
"""

from __future__ import annotations

import inspect

import tvm
from tvm import tirx
from tvm.s_tir import Schedule

_UNCHECKED = {
    name: method.__wrapped__
    for name, method in vars(Schedule).items()
    if inspect.isfunction(method) and hasattr(method, "__wrapped__")
}
_QuickSchedule: type[Schedule] = type(
    "_QuickSchedule", (Schedule,), {"__slots__": (), **_UNCHECKED}
)


def quick_schedule(func: tirx.PrimFunc) -> Schedule:
    """A schedule of one function, to which rules give the name ``main``."""
    return _QuickSchedule(tvm.IRModule({"main": func}), error_render_level="fast")
