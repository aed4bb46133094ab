"""What each phase of the pipeline leaves, checked before the next one relies on it.

Passes rewrite modules, and a fault of one of them shows late: as a wrong number, or deep inside
the compiler. These checks read what is there, once; next to what a pass takes they are quick. A
violation is no mistake in the use of this package, so it is a `PassFault`.

    verify_lowered   after lowering: every call is that of a kernel of the module, with an argument
                     for each of its parameters; every call is a task of its own
    verify_placed    after annotation, and before `split_segments` relies on it (a placed module may
                     have gone through other hands): each call has a device of the platform, which
                     its kernel was made for and all outputs are on; every task is computed once
                     for each element, on the device that the schedule gives it
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import tvm

from tvm_hetero.errors import PassFault
from tvm_hetero.passes.attributes import DEVICE, KERNEL
from tvm_hetero.passes.emit_views import device_position
from tvm_hetero.passes.extract_tasks import ExtractedTasks
from tvm_hetero.passes.io_tasks import is_io_task
from tvm_hetero.passes.lowered_main import KernelCall, LoweredMain
from tvm_hetero.passes.placed_model import PlacedModel
from tvm_hetero.plan.element_names import split_task
from tvm_hetero.platform.model import Platform


def verify_lowered(mod: tvm.IRModule, tasks: ExtractedTasks) -> None:
    """Check a lowered module and the tasks that were read from it.

    Raises
    ------
    PassFault
        If it is not as the file's text says.
    """
    for call in tasks.main.calls:
        _check_kernel(mod, call)
    ids = tasks.main.task_ids
    _check(len(set(ids)) == len(ids), "two calls of kernels are one task", ids)
    named = [task.id for task in tasks.graph.tasks]
    _check(named == list(ids), "the tasks are not the calls, in order", named)


def verify_placed(model: PlacedModel, main: LoweredMain) -> None:
    """Check that a model, with its ``main``, is placed as its schedule says.

    Raises
    ------
    PassFault
        If it is not as the file's text says.
    """
    mod, problem, schedule = model.placed, model.problem, model.schedule
    vdevices = list(mod.global_infos["vdevice"])
    count = len(problem.platform.devices)
    _check(len(vdevices) == count, f"the module has not the {count} devices", len(vdevices))
    kernels = {task.id for task in problem.tasks if not is_io_task(task)}
    asked = {
        (row.task, element): row.device
        for row in schedule.executions
        if row.task in kernels
        for element in row.elements
    }
    for where, device in _placed(mod, main, problem.platform, vdevices):
        # Each is taken away as it is found, so a second one is not there any more.
        wanted = asked.pop(where, "nowhere")
        _check(device == wanted, f"a call is on {device}, where the schedule has {wanted}", where)
    _check(not asked, "the schedule has what the module does not compute", next(iter(asked), ""))


def _placed(
    mod: tvm.IRModule, main: LoweredMain, platform: Platform, vdevices: Sequence[Any]
) -> Iterator[tuple[tuple[str, int], str]]:
    """Each task and element that is computed, and the device that all that is known agrees on."""
    for call, name in zip(main.calls, main.task_ids, strict=True):
        _check_kernel(mod, call)
        attrs = mod[call.kernel].attrs or {}
        _check(KERNEL in attrs and DEVICE in attrs, "a kernel bears no device", call.kernel)
        device = str(attrs[DEVICE])
        _check(device in platform.index, "a kernel is for no device of the platform", device)
        for ty in call.outputs:
            here = platform.names[device_position(ty, vdevices)]
            _check(here == device, f"an output of a kernel for {device} is on {here}", name)
        task, elements = split_task(name)
        for element in elements:
            yield (task, element), device


def _check_kernel(mod: tvm.IRModule, call: KernelCall) -> None:
    known = call.kernel in mod.functions
    _check(known, "a call is of a kernel that the module lacks", call.kernel)
    params = len(mod[call.kernel].params)
    given = len(call.args) + len(call.outputs)
    _check(params == given, f"a kernel of {params} parameters is given {given}", call.kernel)


def _check(holds: bool, what: str, which: object) -> None:
    if not holds:
        raise PassFault(
            f"{what}: {which!s:.200}. A pass is at fault: one that has changed the module since it "
            "was partitioned, else one of this package: please report it, with model and platform"
        )
