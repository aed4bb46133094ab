"""Devices that a model's own annotations name, from the front end to the scheduling problem.

Relay's ``on_device`` wants an operator on a device, by type and number. That is a wish, not a
fact about the program: between the operators it would keep them from being fused. So a front end
notes it beside them, in the attribute `WISHES` of ``main``, by the variable that the operator
makes. Whoever wants the wishes respected asks for it, and then:

    `with_hints`           before lowering: ``R.hint_on_device`` after each such operator, which
                           ends the kernel there: a pin is about it and what was fused into it alone
    `pin_hinted_kernels`   after lowering (`LowerToTasks` calls it): hints go, and what they said
                           becomes the attribute `PINS`, by the position of the kernel call
    `apply_pins`           the cost table without the devices that a task may not run on
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TypeVar

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from tvm_hetero.devices.target import device_target
from tvm_hetero.errors import ModelError, PlatformError
from tvm_hetero.passes.attributes import PINS, WISHES
from tvm_hetero.platform.model import Platform

_HINT = "relax.hint_on_device"
Row = TypeVar("Row")


def wishes_text(wishes: Mapping[str, tuple[int, int]]) -> str:
    """The text of the attribute `WISHES`."""
    return json.dumps({name: list(wish) for name, wish in wishes.items()})


def _noted(mod: tvm.IRModule, name: str) -> dict[str, tuple[int, int]]:
    attrs = mod["main"].attrs
    text = str(attrs[name]) if attrs and name in attrs else "{}"
    return {key: (int(kind), int(index)) for key, (kind, index) in json.loads(text).items()}


def with_hints(mod: tvm.IRModule) -> tvm.IRModule:
    """The module with its wishes as hints between the operators.

    Raises
    ------
    ModelError
        An operator that was annotated is gone: some pass has rewritten it.
    """
    wishes = _noted(mod, WISHES)
    return _Hinter(mod, wishes).run() if wishes else mod


def pin_hinted_kernels(mod: tvm.IRModule) -> tvm.IRModule:
    """A lowered module without hints; the kernels that make what they were about are pinned."""
    from tvm_hetero.passes.lowered_main import read_main

    if not any(is_hint(b.value) for block in mod["main"].body.blocks for b in block.bindings):
        return mod
    bare = _Unhinter(mod).run()
    main = read_main(bare)
    found = _Places(mod).found
    pins: dict[str, tuple[int, int]] = {}
    for position, wishes in found.items():
        if len(set(wishes)) > 1:
            raise ModelError(
                f"operators of one kernel ({main.task_ids[position]}) are annotated with "
                f"different devices: {sorted(set(wishes))}; annotate one of them"
            )
        pins[str(position)] = wishes[0]
    bare["main"] = bare["main"].with_attr(PINS, wishes_text(pins))
    return bare


def apply_pins(
    mod: tvm.IRModule, table: Mapping[str, Mapping[str, Row]], platform: Platform
) -> dict[str, dict[str, Row]]:
    """A table by task and device, with the devices alone on which each task may run.

    Raises
    ------
    PlatformError
        A device that is wished for is not there, or cannot run the task.
    """
    pins = _noted(mod, PINS)
    found: dict[str, dict[str, Row]] = {}
    for task, row in table.items():
        wish = pins.get(task.split(".", 1)[0])
        allowed = set(row) if wish is None else set(_devices(platform, wish))
        found[task] = {device: cost for device, cost in row.items() if device in allowed}
        if not found[task]:
            raise PlatformError(
                f"task {task!r} is annotated for {sorted(allowed)}, where it does not run"
            )
    return found


def _devices(platform: Platform, wish: tuple[int, int]) -> list[str]:
    """The devices that a wish may mean."""
    kind, index = wish
    alike = [
        device.name
        for device in platform.devices
        if device.target is not None and int(device_target(device).get_target_device_type()) == kind
    ]
    if not alike or index >= len(alike):
        raise PlatformError(
            f"the model is annotated for device {max(index, 0)} of DLPack type {kind} (1: CPU, 2: "
            f"CUDA), but {platform.name!r} has {alike or 'none'} of that type; leave "
            "respect_annotations out, or use another platform"
        )
    return alike if index < 0 else [alike[index]]


def is_hint(value: object) -> bool:
    """Whether an expression is a hint."""
    return isinstance(value, relax.Call) and getattr(value.op, "name", "") == _HINT


class _Places:
    """Which call each hint of a lowered module is about, through views."""

    def __init__(self, mod: tvm.IRModule) -> None:
        self.found: dict[int, list[tuple[int, int]]] = {}
        wishes = list(_noted(mod, WISHES).values())
        made: dict[relax.Var, int | None] = {}
        calls = 0
        for block in mod["main"].body.blocks:
            for binding in block.bindings:
                value = binding.value
                source = _source(value)
                made[binding.var] = made.get(source) if source is not None else None
                if isinstance(value, relax.Call) and value.op.name == "relax.call_tir":
                    made[binding.var] = calls
                    calls += 1
                place = made[binding.var]
                if is_hint(value) and place is not None:
                    self.found.setdefault(place, []).append(wishes[_ticket(value)])


def _source(value: relax.Expr) -> relax.Var | None:
    """The variable that a view, alias or hint is about."""
    if isinstance(value, relax.TupleGetItem):
        value = value.tuple_value
    elif isinstance(value, relax.Call) and value.args and value.op.name != "relax.call_tir":
        value = value.args[0]
    return value if isinstance(value, relax.Var) else None


def _ticket(hint: relax.Call) -> int:
    """Which wish a hint stands for."""
    return int(hint.attrs.index)


@mutator
class _Hinter(PyExprMutator):  # type: ignore[misc]
    """Adds a hint after each operator that a wish is about."""

    def __init__(self, mod: tvm.IRModule, wishes: Mapping[str, tuple[int, int]]) -> None:
        super().__init__(mod)
        self.wishes = wishes
        self.met: set[str] = set()

    def run(self) -> tvm.IRModule:
        mod = _updated(self)
        missing = sorted(set(self.wishes) - self.met)
        if missing:
            raise ModelError(
                f"the annotated operator {missing[0]!r} is no longer in the module: respect "
                "annotations in the first pass after the import"
            )
        return mod

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        super().visit_var_binding_(binding)
        name = binding.var.name
        if name not in self.wishes or name in self.met:
            return
        self.met.add(name)
        # A hint holds no more than a device; which wish it is goes as that device's number.
        ticket = tvm.runtime.device("cpu", list(self.wishes).index(name))
        hint = relax.op.hint_on_device(self.visit_expr(binding.var), ticket)
        # What leaves its dataflow block has to do so with its hint.
        local = isinstance(binding.var, relax.DataflowVar)
        leaves = self.builder_.current_block_is_dataflow() and not local
        emit = self.builder_.emit_output if leaves else self.builder_.emit
        self.set_var_remap(binding.var, emit(hint))


@mutator
class _Unhinter(PyExprMutator):  # type: ignore[misc]
    """Takes hints out: what they are about stands in their place."""

    def run(self) -> tvm.IRModule:
        return relax.transform.CanonicalizeBindings()(_updated(self))

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        return self.visit_expr(call.args[0]) if is_hint(call) else super().visit_call_(call)


def _updated(walk: PyExprMutator) -> tvm.IRModule:
    """The module whose ``main`` a mutator has rewritten, with its attributes."""
    before = walk.builder_.get()
    gv = next(v for v in before.get_global_vars() if v.name_hint == "main")
    main = before[gv]
    after = walk.visit_expr(main)
    if main.attrs is not None and len(main.attrs):
        after = after.with_attrs(dict(main.attrs.items()))
    walk.builder_.update_func(gv, after)
    return walk.builder_.get()
