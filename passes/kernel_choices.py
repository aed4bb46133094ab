"""What a module knows about the implementations of its kernels.

A lowered module whose kernels were measured carries two attributes: the choices, with all times
(`tvm_hetero.choices`, for reports), and the traces of the tuned schedules among them (for builds).
A placed module keeps them, so that it can be built, or placed anew, without asking any database;
each copy of a kernel in it says by itself how it is to be computed.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import tvm

from tvm_hetero.errors import UsageError
from tvm_hetero.kernels.tir.batched import batched
from tvm_hetero.kernels.tir.implementation_attr import RULE, TUNED, with_implementation
from tvm_hetero.passes.attributes import CHOICES, TRACES
from tvm_hetero.platform.devices import Device
from tvm_hetero.problem.implementation_choice import Choice, choices_from_dict, choices_to_dict
from tvm_hetero.util.documents import canonical_json, parse_document


def with_choices(
    mod: tvm.IRModule,
    choices: Sequence[Choice] = (),
    traces: Mapping[str, Mapping[str, str]] | None = None,
) -> tvm.IRModule:
    """The module with these choices and traces (kernel -> device -> trace) and no others."""
    for name in (CHOICES, TRACES):
        if mod.attrs is not None and name in mod.attrs:
            mod = mod.without_attr(name)
    if choices:
        mod = mod.with_attr(CHOICES, canonical_json(choices_to_dict(choices)))
    return mod.with_attr(TRACES, canonical_json(traces)) if traces else mod


def with_traces(mod: tvm.IRModule, traces: Mapping[str, Mapping[str, str]]) -> tvm.IRModule:
    """The module with these traces (kernel -> device -> trace) beside those that it has; of two for
    the same its own stays.
    """
    own = traces_of(mod)
    joined = {name: {**traces.get(name, {}), **own.get(name, {})} for name in {**own, **traces}}
    return mod.with_attr(TRACES, canonical_json(joined)) if joined else mod


def choices_of(mod: tvm.IRModule) -> tuple[Choice, ...]:
    """The choices that a module carries; none where its kernels were not measured."""
    text = mod.attrs.get(CHOICES) if mod.attrs is not None else None
    where = "the module's choices"
    return () if text is None else choices_from_dict(parse_document(str(text), where), where)


def implemented(
    mod: tvm.IRModule,
    func: tvm.tirx.PrimFunc,
    kernel: str,
    device: Device,
    implementation: str,
    elements: int = 1,
    shared: Sequence[int] = (),
) -> tvm.tirx.PrimFunc:
    """A kernel of `mod`, to be computed on `device` in the way that its cost is that of.

    One for several elements at once, with `shared` for its constants, is computed by its rule.

    Raises
    ------
    UsageError
        If there is no kernel for several elements of this one.
    """
    if elements > 1:
        try:
            return batched(func, elements, shared)
        except ValueError as error:
            raise UsageError(
                f"kernel {kernel!r} on device {device.name!r}: the cost is that of a kernel for "
                f"{elements} elements at once, which cannot be made ({error}); take {elements} out "
                "of the task's sizes in the problem"
            ) from None
    if implementation != TUNED:
        return with_implementation(func, implementation)
    trace = traces_of(mod).get(kernel, {}).get(device.name)
    if trace is not None:
        return with_implementation(func, TUNED, trace)
    warnings.warn(
        f"kernel {kernel!r} on device {device.name!r}: the cost is that of a tuned schedule, whose "
        "trace the module lacks (with_stored_traces looks for it); its rule is built, which is "
        "slower",
        stacklevel=2,
    )
    return with_implementation(func, RULE)


def traces_of(mod: tvm.IRModule) -> dict[str, Any]:
    """The traces of tuned schedules that a module carries: kernel -> device -> trace."""
    text = mod.attrs.get(TRACES) if mod.attrs is not None else None
    return {} if text is None else dict(json.loads(str(text)))
