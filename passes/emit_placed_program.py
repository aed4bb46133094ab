"""Write ``main`` anew as a layout says: the rewriting half of `tvm_hetero.passes.annotate_devices`.

Everything has been decided before (`tvm_hetero.passes.placed_program`). Calls and copies are
written in the layout's order; a view is written where it is read, and a copy that the layout does
not list (it always lists them all where the schedule is valid) where it is needed first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import tvm
from tvm import relax

from tvm_hetero.kernels.tir.batched import single
from tvm_hetero.kernels.tir.implementation_attr import RULE, without_implementation
from tvm_hetero.passes.attributes import (
    DEVICE,
    INPUT_NAMES,
    KERNEL,
    ONE_RESULT,
    OUTPUT_NAMES,
    STATES,
    TASK_IDS,
)
from tvm_hetero.passes.emit_views import Place, ViewEmitter, with_vdevice
from tvm_hetero.passes.kernel_choices import implemented
from tvm_hetero.passes.lowered_main import KernelCall, LoweredMain, Root, names_of
from tvm_hetero.passes.placed_program import PlacedRun, ProgramLayout, TensorMove
from tvm_hetero.passes.states import states_of
from tvm_hetero.plan.element_names import MARK, batch_of, element_names, task_name
from tvm_hetero.problem.model import Problem


@dataclass(frozen=True)
class _EmittedKernel:
    """A copy of a kernel: its name before, for which device, and how it is computed.

    `shared` are its constants where it computes several elements at once.
    """

    name: str
    device: int
    implementation: str
    elements: int
    shared: tuple[int, ...]


@dataclass(frozen=True)
class _Made:
    """What a call makes of an element, which is the call's `position`-th of `elements`."""

    var: relax.Var
    position: int
    elements: int

    def output(self, number: int) -> int:
        """Where that output of the element stands among the call's."""
        return number * self.elements + self.position


@dataclass
class MainWriter:
    """Writes `main` as `layout` says; with no devices if `vdevices` and `problem` are None.

    `main` is of one element if there are devices. Without, it may be that of a batch, of which
    the layout takes the first element.
    """

    mod: tvm.IRModule
    main: LoweredMain
    layout: ProgramLayout
    vdevices: Sequence[Any] | None = None
    problem: Problem | None = None
    lift: bool = False
    lifted: dict[tuple[Any, int], relax.Var] = field(default_factory=dict)
    _builder: relax.BlockBuilder = field(default_factory=relax.BlockBuilder)
    _env: dict[tuple[Root, Place], Any] = field(default_factory=dict)
    _made: dict[tuple[int, int], _Made] = field(default_factory=dict)
    _kernels: dict[_EmittedKernel, tvm.ir.GlobalVar] = field(default_factory=dict)

    def write(self) -> tvm.IRModule:
        """The module with the new ``main`` and the kernels that it calls."""
        params = self._params()
        emitter = ViewEmitter(self._builder, self.main, self._tensor, self._constant)
        with self._builder.function("main", params, attrs=self._attributes()):
            with self._builder.dataflow():
                for item in self.layout.items:
                    if isinstance(item, PlacedRun):
                        self._call(emitter, item)
                    else:
                        self._tensor(item.root, (item.device, item.element))
                results = self._results(emitter)
                value = relax.Tuple(results) if self._returns_tuple else results[0]
                out = self._builder.emit_output(value)
            self._builder.emit_func_output(out)
        result = self._builder.get()
        if self.vdevices is not None:
            result.update_global_info("vdevice", list(self.vdevices))
        return result

    @property
    def _returns_tuple(self) -> bool:
        if self.layout.batch > 1:
            return True
        attrs = self.main.function.attrs
        return self.main.returns_tuple and not (attrs and ONE_RESULT in attrs)

    def _vdevice(self, device: int) -> Any | None:
        return None if self.vdevices is None else self.vdevices[device]

    def _params(self) -> list[relax.Var]:
        params = []
        for element, homes in enumerate(self.layout.input_home):
            for i, home in enumerate(homes):
                old = self.main.params[i]
                name = old.name if self.layout.batch == 1 else f"{old.name}_{element}"
                params.append(relax.Var(name, with_vdevice(old.ty, self._vdevice(home))))
                self._env[Root(None, i), (home, element)] = params[-1]
        if self.lift:
            for (call, _), device in self.layout.device_of.items():
                self._lift_constants(self.main.calls[call], device)
        return [*params, *self.lifted.values()]

    def _lift_constants(self, call: KernelCall, device: int) -> None:
        for value in self.main.constants(call):
            if value is not None and device > 0 and (value, device) not in self.lifted:
                ty = relax.TensorType(value.shape, str(value.dtype), self._vdevice(device))
                self.lifted[value, device] = relax.Var(f"w{len(self.lifted)}", ty)

    def _constant(self, const: Any, place: Place) -> Any:
        return self.lifted.get((const.value, place[0]), const)

    def _tensor(self, root: Root, place: Place) -> Any:
        """The variable of `root` on a place; the copy that brings it there is written once."""
        if (root, place) not in self._env:
            device, element = place
            home = self.layout.home(root, element)
            if device == home:
                assert root.call is not None  # every input is in `_env` from the start
                made = self._made[root.call, element]
                number = root.index // len(self.main.calls[root.call].elements)
                expr = relax.TupleGetItem(made.var, made.output(number))
            else:
                near = self.layout.source.get(TensorMove(root, device, element), home)
                tensor = self._tensor(root, (near, element))
                expr = relax.op.to_vdevice(tensor, self._vdevice(device))
            self._env[root, place] = self._builder.emit(expr)
        return self._env[root, place]

    def _call(self, emitter: ViewEmitter, run: PlacedRun) -> None:
        call, elements = self.main.calls[run.call], run.elements
        device = self.layout.device_of[run.call, elements[0]]
        # Of a call for several elements, those of the first one stand at every so many outputs.
        outputs = [
            with_vdevice(ty, self._vdevice(device))
            for ty in call.outputs[:: len(call.elements)]
            for _ in elements
        ]
        is_tuple = len(outputs) > 1 or (call.is_tuple and len(call.elements) == 1)
        out_ty = relax.TupleType(outputs) if is_tuple else outputs[0]
        var = emitter.call(call, self._kernel(call, device, elements), out_ty, device, elements)
        for position, element in enumerate(elements):
            self._made[run.call, element] = _Made(var, position, len(elements))
        if not is_tuple:
            self._env[Root(run.call, 0), (device, elements[0])] = var

    def _kernel(self, call: KernelCall, device: int, elements: Sequence[int]) -> tvm.ir.GlobalVar:
        """The copy of a call's kernel that is for `device`."""
        shared = self.main.shared(call) if len(elements) > 1 else ()
        how = self._implementation(call, device) if len(elements) == 1 else RULE
        key = _EmittedKernel(self._kernel_name(call), device, how, len(elements), shared)
        if key not in self._kernels:
            self._kernels[key] = self._add_kernel(call, key)
        return self._kernels[key]

    def _kernel_name(self, call: KernelCall) -> str:
        """What a call's kernel was called before it was placed."""
        func = self.mod[call.kernel]
        return str((func.attrs and func.attrs.get(KERNEL)) or call.kernel.name_hint)

    def _add_kernel(self, call: KernelCall, key: _EmittedKernel) -> tvm.ir.GlobalVar:
        func = self.mod[call.kernel]
        for attribute in (KERNEL, DEVICE, "target"):
            func = func.without_attr(attribute)
        func = single(without_implementation(func))
        vdevice = self._vdevice(key.device)
        if vdevice is None or self.problem is None:
            return self._builder.add_func(func, key.name)
        row = self.problem.platform.devices[key.device]
        how = (key.implementation, key.elements, key.shared)
        func = implemented(self.mod, func, key.name, row, *how)
        several = f"_x{key.elements}" if key.elements > 1 else ""
        name = f"d{key.device}_{key.name}{several}"
        func = func.with_attr("target", vdevice.target).with_attr(KERNEL, key.name)
        return self._builder.add_func(func.with_attr(DEVICE, row.name), name)

    def _implementation(self, call: KernelCall, device: int) -> str:
        """How a call's task is computed on `device`, as its cost there says."""
        if self.problem is None:
            return RULE
        task = self.main.task_ids[call.position]
        return self.problem.costs[task][self.problem.platform.names[device]].implementation

    def _results(self, emitter: ViewEmitter) -> list[Any]:
        results = self.main.results()
        written = []
        for element, homes in enumerate(self.layout.output_home):
            for expr, wanted in zip(results, homes, strict=False):
                root = self.main.root(expr)
                made = 0 if root is None else self.layout.home(root, element)
                home = made if wanted is None else wanted
                written.append(emitter.value(expr, (home, element)))
        return written

    def _attributes(self) -> Mapping[str, Any]:
        """The attributes of the new ``main``: the old ones, and the ids of its tasks in order."""
        attrs = dict(self.main.function.attrs) if self.main.function.attrs else {}
        batch = self.layout.batch
        old_batch = batch_of(attrs.pop(TASK_IDS, ()))
        attrs.pop(ONE_RESULT, None)
        if self.vdevices is not None:
            runs = [item for item in self.layout.items if isinstance(item, PlacedRun)]
            ids = self.main.task_ids
            attrs[TASK_IDS] = [task_name(ids[run.call], run.elements, batch) for run in runs]
        if self.lift:
            attrs["num_input"] = batch * len(self.main.params)
        if batch > 1:
            attrs |= self._names_of_elements(batch)
            if not self.main.returns_tuple:
                attrs[ONE_RESULT] = True
        elif old_batch > 1:
            attrs = _with_plain_names(attrs, old_batch)
        return attrs

    def _names_of_elements(self, batch: int) -> dict[str, list[str]]:
        inputs = names_of(self.mod, INPUT_NAMES, len(self.main.params), "input")
        outputs = names_of(self.mod, OUTPUT_NAMES, len(self.main.results()), "output")
        states = [inputs[i] for i in states_of(self.main)]
        return {
            INPUT_NAMES: element_names(inputs, batch),
            OUTPUT_NAMES: element_names(outputs, batch),
            **({STATES: element_names(states, batch)} if states else {}),
        }


def _with_plain_names(attrs: dict[str, Any], batch: int) -> dict[str, Any]:
    """The attributes of one element's ``main``, from those of a batch's: names that it would have
    without attributes are in none.
    """
    for key, stem in ((INPUT_NAMES, "input"), (OUTPUT_NAMES, "output")):
        names = [str(name).rpartition(MARK)[0] for name in attrs.pop(key)]
        names = names[: len(names) // batch]
        if names != [f"{stem}{i}" for i in range(len(names))]:
            attrs[key] = names
    if STATES in attrs:
        names = [str(name).rpartition(MARK)[0] for name in attrs.pop(STATES)]
        attrs[STATES] = names[: len(names) // batch]
    return attrs
