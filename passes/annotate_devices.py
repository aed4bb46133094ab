"""Write a schedule into the IR: ``VDevice`` on every operator, ``R.to_vdevice`` for every copy.

The result is an ordinary Relax module that can be printed, saved and run by TVM's own VM:
- ``vdevice`` in the module's global info lists the platform's devices, in order;
- every kernel call has an output type with the device that runs it, and calls a copy of its
  kernel that bears that device's target (unscheduled: scheduling is the build's business) and the
  implementation that the task's cost is that of (`tvm_hetero.passes.kernel_choices`);
- calls and copies stand in the order of their start times, so that the order on each device is
  the schedule's;
- the module's attributes hold the problem and the schedule (JSON), ``main`` the ids of its tasks.

`strip_devices` undoes it, so that a module can be placed again.

An input of the model arrives on the device where its ``input`` task is placed if the problem has
one (see `tvm_hetero.passes.io_tasks`), else on the first CPU device.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import tvm
from tvm import relax

from tvm_hetero.documents import canonical_json, parse_document
from tvm_hetero.errors import PlatformError, UsageError
from tvm_hetero.kernels.implementations import RULE, without_implementation
from tvm_hetero.passes.dataflow import TASK_IDS, KernelCall, LoweredMain, Root, read_main
from tvm_hetero.passes.emit import Emitter, with_vdevice
from tvm_hetero.passes.kernel_choices import implemented
from tvm_hetero.passes.layout import Layout, original_layout, plan_layout
from tvm_hetero.platform import Platform
from tvm_hetero.problem import Problem
from tvm_hetero.problem_format import problem_from_dict, problem_to_dict
from tvm_hetero.schedule import Schedule

PROBLEM = "tvm_hetero.problem"
SCHEDULE = "tvm_hetero.schedule"
# Attributes of a kernel: its name before annotation, and the device that it is for.
KERNEL = "hetero_kernel"
DEVICE = "hetero_device"


@tvm.transform.module_pass(opt_level=0, name="AnnotateDevices")
class AnnotateDevices:
    """The pass of this file: place the tasks of a lowered module as a schedule says."""

    def __init__(self, problem: Problem, schedule: Schedule) -> None:
        self.problem = problem
        self.schedule = schedule

    def transform_module(
        self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext
    ) -> tvm.IRModule:
        """Return `mod` annotated."""
        return annotate_devices(mod, self.problem, self.schedule)


def check_batch(batch: int) -> None:
    """Refuse to place a module for batches of several elements.

    Raises
    ------
    UsageError
        If `batch` is not 1.
    """
    if batch != 1:
        raise UsageError(
            f"a module is placed for batch 1, this problem has batch {batch}: a plan runs "
            "one element at a time. Import the model with a larger first dimension "
            "(--shape NAME=4x3x224x224) to compute several at once"
        )


def annotate_devices(mod: tvm.IRModule, problem: Problem, schedule: Schedule) -> tvm.IRModule:
    """Place the tasks of a lowered module on the devices that `schedule` gives them.

    Raises
    ------
    UsageError
        If problem and schedule are not this module's, or a task runs on several devices.
    """
    check_batch(problem.batch)
    mod = strip_devices(mod) if is_annotated(mod) else mod
    main = read_main(mod)
    layout = plan_layout(main, problem, schedule)
    vdevices = make_vdevices(problem.platform)
    result = _Writer(mod, main, layout, vdevices, problem).write()
    document = canonical_json(problem_to_dict(problem))
    own = {PROBLEM: document, SCHEDULE: schedule.dumps()}
    return result.with_attrs({**(dict(mod.attrs) if mod.attrs else {}), **own})


def is_annotated(mod: tvm.IRModule) -> bool:
    """Whether a module came out of `annotate_devices`."""
    return mod.attrs is not None and SCHEDULE in mod.attrs


def problem_and_schedule(mod: tvm.IRModule) -> tuple[Problem, Schedule]:
    """The problem and the schedule that an annotated module carries.

    Raises
    ------
    UsageError
        If the module is not annotated.
    """
    if not is_annotated(mod):
        raise UsageError(
            "the module has no placement; expected the result of HeteroPartition()(module)"
        )
    problem = problem_from_dict(parse_document(str(mod.attrs[PROBLEM]), "the module's problem"))
    return problem, Schedule.loads(str(mod.attrs[SCHEDULE]), "the module's schedule")


def strip_devices(mod: tvm.IRModule) -> tvm.IRModule:
    """Undo `annotate_devices`: no devices, no copies, calls in the model's own order."""
    main = read_main(mod)
    result = _Writer(mod, main, original_layout(main)).write()
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
    first: TVM's VM puts every constant on the first (limit 3 of `tvm_hetero.runtime.reference`).

    Returns
    -------
    The module, and for each new parameter (they come last) its value and its device's position.
    """
    problem, schedule = problem_and_schedule(mod)
    main = read_main(mod)
    layout = plan_layout(main, problem, schedule)
    vdevices = make_vdevices(problem.platform)
    writer = _Writer(mod, main, layout, vdevices, problem, lift=True)
    return writer.write(), list(writer.lifted)


@dataclass
class _Writer:
    """Writes `main` anew as `layout` says; with no devices if `vdevices` and `problem` are None."""

    mod: tvm.IRModule
    main: LoweredMain
    layout: Layout
    vdevices: Sequence[Any] | None = None
    problem: Problem | None = None
    lift: bool = False
    lifted: dict[tuple[Any, int], relax.Var] = field(default_factory=dict)
    _builder: relax.BlockBuilder = field(default_factory=relax.BlockBuilder)
    _env: dict[tuple[Root, int], Any] = field(default_factory=dict)
    _made: dict[int, Any] = field(default_factory=dict)
    _kernels: dict[tuple[str, int, str], tvm.ir.GlobalVar] = field(default_factory=dict)

    def write(self) -> tvm.IRModule:
        params = self._params()
        emitter = Emitter(self._builder, self.main, self._tensor, self._constant)
        with self._builder.function("main", params, attrs=self._attributes()):
            with self._builder.dataflow():
                for item in self.layout.items:
                    if isinstance(item, int):
                        self._call(emitter, self.main.calls[item])
                    else:
                        self._tensor(*item)
                results = [
                    emitter.value(expr, self._result_home(i, expr))
                    for i, expr in enumerate(self.main.results())
                ]
                value = relax.Tuple(results) if self.main.returns_tuple else results[0]
                out = self._builder.emit_output(value)
            self._builder.emit_func_output(out)
        result = self._builder.get()
        if self.vdevices is not None:
            result.update_global_info("vdevice", list(self.vdevices))
        return result

    def _vdevice(self, device: int) -> Any | None:
        return None if self.vdevices is None else self.vdevices[device]

    def _params(self) -> list[relax.Var]:
        params = []
        for i, (old, home) in enumerate(
            zip(self.main.params, self.layout.input_home, strict=True)
        ):
            params.append(relax.Var(old.name, with_vdevice(old.ty, self._vdevice(home))))
            self._env[Root(None, i), home] = params[-1]
        if self.lift:
            for call in self.main.calls:
                self._lift_constants(call, self.layout.device_of[call.position])
        return [*params, *self.lifted.values()]

    def _lift_constants(self, call: KernelCall, device: int) -> None:
        for value in self.main.constants(call):
            if value is not None and device > 0:
                ty = relax.TensorType(value.shape, str(value.dtype), self._vdevice(device))
                self.lifted.setdefault((value, device), relax.Var(f"w{len(self.lifted)}", ty))

    def _constant(self, const: Any, device: int) -> Any:
        return self.lifted.get((const.value, device), const)

    def _home(self, root: Root) -> int:
        if root.call is None:
            return self.layout.input_home[root.index]
        return self.layout.device_of[root.call]

    def _tensor(self, root: Root, device: int) -> Any:
        """The variable of `root` on `device`; the copy that brings it there is written once."""
        if (root, device) not in self._env:
            home = self._home(root)
            if device == home:
                assert root.call is not None  # every input is in `_env` from the start
                expr = relax.TupleGetItem(self._made[root.call], root.index)
            else:
                near = self._tensor(root, self.layout.source.get((root, device), home))
                expr = relax.op.to_vdevice(near, self._vdevice(device))
            self._env[root, device] = self._builder.emit(expr)
        return self._env[root, device]

    def _call(self, emitter: Emitter, call: KernelCall) -> None:
        device = self.layout.device_of[call.position]
        out_ty = with_vdevice(call.expr.ty_args[0], self._vdevice(device))
        var = emitter.call(call, self._kernel(call, device), out_ty, device)
        self._made[call.position] = var
        if not call.is_tuple:
            self._env[Root(call.position, 0), device] = var

    def _kernel(self, call: KernelCall, device: int) -> tvm.ir.GlobalVar:
        """The copy of a call's kernel that is for `device`."""
        func = self.mod[call.kernel]
        kept = func.attrs.get(KERNEL) if func.attrs else None
        name = str(kept or call.kernel.name_hint)
        how = self._implementation(call, device)
        if (name, device, how) not in self._kernels:
            for key in (KERNEL, DEVICE, "target"):
                func = func.without_attr(key)
            func = without_implementation(func)
            label = name
            vdevice = self._vdevice(device)
            if vdevice is not None and self.problem is not None:
                row = self.problem.platform.devices[device]
                func = implemented(self.mod, func, name, row, how)
                func = func.with_attr("target", vdevice.target).with_attr(KERNEL, name)
                func = func.with_attr(DEVICE, row.name)
                label = f"d{device}_{name}"
            self._kernels[name, device, how] = self._builder.add_func(func, label)
        return self._kernels[name, device, how]

    def _implementation(self, call: KernelCall, device: int) -> str:
        """How a call's task is computed on `device`, as its cost there says."""
        if self.problem is None:
            return RULE
        task = self.main.task_ids[call.position]
        return self.problem.costs[task][self.problem.platform.names[device]].implementation

    def _attributes(self) -> Mapping[str, Any]:
        """The attributes of the new ``main``: the old ones, and the ids of its tasks in order."""
        attrs = dict(self.main.function.attrs) if self.main.function.attrs else {}
        attrs.pop(TASK_IDS, None)
        if self.vdevices is not None:
            calls = [item for item in self.layout.items if isinstance(item, int)]
            attrs[TASK_IDS] = [self.main.task_ids[i] for i in calls]
        if self.lift:
            attrs["num_input"] = len(self.main.params)
        return attrs

    def _result_home(self, number: int, expr: Any) -> int:
        """Where a result is left: at its output task's device, else where it was made."""
        home = self.layout.output_home[number]
        root = self.main.root(expr)
        if home is not None or root is None:
            return home or 0
        return self._home(root)
