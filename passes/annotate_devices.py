"""Write a schedule into the IR: ``VDevice`` on every operator, ``R.to_vdevice`` for every copy.

The result is an ordinary Relax module that can be printed, saved and run by TVM's own VM:
- ``vdevice`` in the module's global info lists the platform's devices, in order;
- every kernel call has an output type with the device that runs it, and calls a copy of its
  kernel that bears that device's target (unscheduled: scheduling is the build's business) and the
  implementation that the task's cost is that of (`tvm_hetero.passes.kernel_choices`);
- calls and copies stand in the order of their start times, so that the order on each device is
  the schedule's;
- the module's attributes hold the problem and the schedule (JSON), ``main`` the ids of its tasks
  (`place_tasks` leaves them objects, beside the module: `tvm_hetero.passes.placed_model`).

For a batch of B > 1 elements (an element is one set of the model's inputs) ``main`` becomes the
program of the whole batch: every parameter, kernel call and result is there B times, each call on
the device of the execution that holds its element, so that elements of a task may run on several
devices. Parameters and results are in the order of the elements; names are those of
`tvm_hetero.plan.element_names`. Weights and kernels are there once.

`strip_devices` undoes it, so that a module can be placed again.

An input of the model arrives on the device where its ``input`` task is placed if the problem has
one (see `tvm_hetero.passes.io_tasks`), else on the first CPU device.
"""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relax

from tvm_hetero.errors import PlatformError
from tvm_hetero.passes.attributes import PROBLEM, SCHEDULE
from tvm_hetero.passes.emit_placed_program import MainWriter
from tvm_hetero.passes.lowered_main import read_main
from tvm_hetero.passes.placed_model import PlacedModel, is_annotated, problem_and_schedule
from tvm_hetero.passes.placed_program import original_layout, plan_layout
from tvm_hetero.platform.model import Platform
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import Schedule


def annotate_devices(mod: tvm.IRModule, problem: Problem, schedule: Schedule) -> tvm.IRModule:
    """Place the tasks of a lowered module on the devices that `schedule` gives them.

    Raises
    ------
    UsageError
        If problem and schedule are not this module's.
    """
    return place_tasks(mod, problem, schedule).to_module()


def place_tasks(mod: tvm.IRModule, problem: Problem, schedule: Schedule) -> PlacedModel:
    """As `annotate_devices`; problem and schedule stay objects beside the module."""
    mod = strip_devices(mod) if is_annotated(mod) else mod
    main = read_main(mod)
    layout = plan_layout(main, problem, schedule)
    vdevices = make_vdevices(problem.platform)
    result = MainWriter(mod, main, layout, vdevices, problem).write()
    kept = dict(mod.attrs) if mod.attrs else {}
    return PlacedModel(result.with_attrs(kept) if kept else result, problem, schedule)


def strip_devices(mod: tvm.IRModule) -> tvm.IRModule:
    """Undo `annotate_devices`: no devices, no copies, calls in the model's own order."""
    main = read_main(mod)
    result = MainWriter(mod, main, original_layout(main)).write()
    # Annotating bound results to names of their own; without those it is the module it was.
    result = relax.transform.CanonicalizeBindings()(result)
    kept = dict(mod.attrs) if mod.attrs else {}
    others = {k: v for k, v in kept.items() if k not in (PROBLEM, SCHEDULE)}
    return result.with_attrs(others) if others else result


def make_vdevices(platform: Platform) -> list[Any]:
    """One ``VDevice`` a device, numbered within its kind, so that no two are equal."""
    counts: dict[str, int] = {}
    vdevices = []
    for device in platform.devices:
        if device.target is None:
            raise PlatformError(
                f"device {device.name!r} has no target, so nothing can be compiled for it; "
                "add one such as {kind: llvm, mcpu: x86-64-v3}"
            )
        number = counts.setdefault(device.kind, 0)
        counts[device.kind] += 1
        vdevices.append(relax.VDevice(dict(device.target), number, "global"))
    return vdevices


def lift_constants(mod: tvm.IRModule) -> tuple[tvm.IRModule, list[tuple[Any, int]]]:
    """Make parameters of the constants that an annotated module reads on other devices than the
    first: TVM puts every constant on the first (limit 3 of `tvm_hetero.compiler.reference_vm`).

    Returns
    -------
    The module, and for each new parameter (they come last) its value and its device's position.
    """
    problem, schedule = problem_and_schedule(mod)
    mod = strip_devices(mod)
    main = read_main(mod)
    layout = plan_layout(main, problem, schedule)
    vdevices = make_vdevices(problem.platform)
    writer = MainWriter(mod, main, layout, vdevices, problem, lift=True)
    return writer.write(), [(value, device) for value, device in writer.lifted]
