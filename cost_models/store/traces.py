"""Traces of tuned schedules, from the store into a module.

A module whose kernels were measured carries the traces of the schedules that were chosen. One
whose problem came from a file does not, though its costs may be those of tuned schedules: if they
were tuned on this machine, the store has the traces.
"""

from __future__ import annotations

from collections.abc import Iterator

import tvm

from tvm_hetero.cost_models.store.database import CostStore
from tvm_hetero.cost_models.store.identity import kernel_key
from tvm_hetero.devices.target import device_target
from tvm_hetero.kernels.tir.implementation_attr import TUNED
from tvm_hetero.passes.annotate_devices import strip_devices
from tvm_hetero.passes.kernel_choices import traces_of, with_traces
from tvm_hetero.passes.placed_model import is_annotated
from tvm_hetero.problem.model import Problem


def with_stored_traces(
    mod: tvm.IRModule, problem: Problem, store: CostStore | None = None
) -> tvm.IRModule:
    """The module with the traces that its problem's costs are those of and that it lacks.

    Parameters
    ----------
    mod : a lowered module; a placed one is taken apart first, unless nothing is lacking.
    store : where they are looked for, by default the user's. What it lacks too stays away:
        `tvm_hetero.passes.kernel_choices.implemented` warns of it.
    """
    lacking = dict.fromkeys(_lacking(mod, problem))
    if not lacking:
        return mod
    mod = strip_devices(mod) if is_annotated(mod) else mod
    store = CostStore() if store is None else store
    found: dict[str, dict[str, str]] = {}
    functions = {var.name_hint: func for var, func in mod.functions.items()}
    for kernel, name in lacking:
        if kernel not in functions:
            continue  # another module's problem, which who places it refuses
        target = str(device_target(problem.platform.device(name)))
        trace = store.find_tuned(kernel_key(functions[kernel]), target)
        if trace is not None:
            found.setdefault(kernel, {})[name] = trace
    return with_traces(mod, found)


def _lacking(mod: tvm.IRModule, problem: Problem) -> Iterator[tuple[str, str]]:
    """Kernels and devices of costs that are those of a tuned schedule without a trace."""
    known = traces_of(mod)
    for task in problem.tasks:
        for device, cost in problem.costs[task.id].items():
            if cost.implementation == TUNED and device not in known.get(task.op, {}):
                yield task.op, device
