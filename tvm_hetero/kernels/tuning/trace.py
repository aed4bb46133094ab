"""Tuned schedules as text: what a search found for one kernel, kept in the store and in artifacts.

Two kinds of schedules are written down, both as JSON:

    {"rule": R, "facts": {...}}     what our own rule R does where these facts about the vector
                                    unit are other than the target's (`tuning.search_space`)
    [[...], [...]]                  a trace of TVM's: the schedule primitives that were applied to
                                    the function, in order (MetaSchedule's schedules)

Either is for one very function, the unscheduled kernel; to another one it mostly does not apply
at all. So the text is always kept beside the kernel's key.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import tvm
from tvm import s_tir, tirx
from tvm.s_tir.schedule import Trace
from tvm_ffi import Array, Map

from tvm_hetero.kernels.tuning.search_space import schedule_with_facts

if TYPE_CHECKING:
    from tvm.s_tir import Schedule
    from tvm.target import Target


def apply_trace(func: tirx.PrimFunc, text: str, target: Target) -> tirx.PrimFunc:
    """The unscheduled kernel, scheduled as the text says.

    Parameters
    ----------
    func
        Exactly the function that was tuned, but for its name.
    text
        What `trace_text` or `facts_text` gave.
    target
        For which target.

    Raises
    ------
    Exception
        Whatever TVM raises where the text does not apply: ValueError, RuntimeError and others.
    """
    content = json.loads(text)
    if isinstance(content, dict):
        return schedule_with_facts(func, content["rule"], content["facts"], target)
    return _replay(func, content, target).mod["main"]


def replay_trace(func: tirx.PrimFunc, text: str, target: Target) -> Schedule | None:
    """The schedule that a trace of TVM's gives, None for text of the other kind."""
    content = json.loads(text)
    return None if isinstance(content, dict) else _replay(func, content, target)


def _replay(func: tirx.PrimFunc, steps: Any, target: Target) -> Schedule:
    # Traces name the function that they are for: `main`.
    sch = s_tir.Schedule(tvm.IRModule({"main": func}))
    with target:
        Trace.apply_json_to_schedule(steps, sch)
    return sch


def trace_text(sch: Schedule) -> str:
    """What was done to a schedule by primitives; equal traces give equal texts."""
    return _line(_plain(sch.trace.as_json(remove_postproc=False)))


def facts_text(rule: str, facts: Mapping[str, float]) -> str:
    """That a rule is to be applied with some facts changed (`tuning.search_space`)."""
    return _line({"rule": rule, "facts": dict(facts)})


def _line(content: Any) -> str:
    return json.dumps(content, separators=(",", ":"))


def _plain(value: Any) -> Any:
    """TVM's arrays, maps and numbers as Python's own."""
    match value:
        case None | bool():
            return value
        case str():
            return str(value)
        case tirx.IntImm():
            return bool(value.value) if str(value.ty.dtype) == "bool" else int(value.value)
        case tirx.FloatImm():
            return float(value.value)
        case Integral():
            return int(value)
        case Real():
            return float(value)
        case list() | tuple() | Array():
            return [_plain(item) for item in value]
        case dict() | Map():
            return {str(key): _plain(item) for key, item in value.items()}
    raise TypeError(f"a trace with a {type(value).__name__} cannot be written down")
