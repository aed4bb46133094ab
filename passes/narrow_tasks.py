"""Tasks in bfloat16: their kernels and weights take the place of those of float32.

A lowered module computes in float32. `narrow_kernels` says which of its kernels there are in
bfloat16 too (`tvm_hetero.kernels.narrow_kernel`), `narrow_tasks` makes the module in which some
tasks are computed by them. What goes between tasks is float32, so any of them can be chosen, but
for edges whose readers all round what they read (`tvm_hetero.passes.narrow_edges`).
Such a task's weights are words of two numbers, rounded here and kept so in the artifact.

A narrow kernel has the name of the other one and `SUFFIX`, and so has the id of its task: whoever
reads a plan sees it. Ids begin with the task's position in any case.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import tvm
import tvm_ffi
from tvm import relax

from tvm_hetero.kernels.bfloat16_tensors import NARROW
from tvm_hetero.kernels.narrow_kernel import NarrowKernel, narrow_kernel
from tvm_hetero.kernels.tir.array_values import array_of
from tvm_hetero.kernels.tir.conditions import conditions_of
from tvm_hetero.passes.extract_tasks import ExtractedTasks
from tvm_hetero.passes.kernel import Kernel
from tvm_hetero.passes.lowered_main import KernelCall, LoweredMain, original_position, read_main
from tvm_hetero.passes.narrow_edges import SUFFIX, Form, KernelForms, NarrowEdge, form_of


def narrow_name(kernel: str) -> str:
    """What the kernel of that name is called in bfloat16."""
    return Form(narrow=True).name(kernel)


def is_narrow(kernel: str) -> bool:
    """Whether that is the name of a kernel in bfloat16."""
    return kernel.endswith(SUFFIX)


def narrow_kernels(tasks: ExtractedTasks) -> dict[str, NarrowKernel]:
    """The kernels of a lowered module that there are in bfloat16, by the names that they have.

    Those of branches stay in float32: which branch runs is for the data to say, and no input for
    calibration may take one, so that its error would be none.
    """
    found = {}
    for kernel in tasks.kernels:
        _, wanted = conditions_of(kernel.func)
        if wanted:
            continue
        try:
            narrow = narrow_kernel(kernel.func, kernel.flops)
        except ValueError:
            continue  # it has no sum, or one that is no matter of pairs
        calls = [c for c in tasks.main.calls if c.kernel.name_hint == kernel.name]
        if all(_weights_of(call, narrow) is not None for call in calls):
            found[kernel.name] = narrow
    return found


def _weights_of(call: KernelCall, narrow: NarrowKernel) -> Any | None:
    """The constant that a kernel multiplies by, None where it is none or a view of one."""
    value = call.args[narrow.weights]
    return value.value if isinstance(value, tvm.ir.GenericConst) else None


def as_kernel(forms: KernelForms, name: str, form: Form) -> Kernel:
    """A kernel in some form, to ask a cost model about: weights, data and outputs may be fewer
    bytes.
    """
    kernel, func = forms.kernels[name], forms.function(name, form)
    pairs = zip(kernel.func.params, func.params, strict=True)
    size = kernel.bytes + sum(_size(after) - _size(before) for before, after in pairs)
    return replace(kernel, name=form.name(name), func=func, bytes=size)


def _size(param: tvm.tirx.Var) -> int:
    """Bytes of a parameter."""
    values = math.prod(int(extent) for extent in param.shape)
    return values * int(tvm_ffi.dtype(str(param.dtype)).bits) // 8


def narrow_tasks(
    mod: tvm.IRModule,
    forms: KernelForms,
    chosen: Collection[str],
    edges: Collection[NarrowEdge] = (),
) -> tvm.IRModule:
    """The module in which the `chosen` tasks are computed in bfloat16.

    Parameters
    ----------
    mod : a lowered module, not placed.
    forms : of its kernels.
    chosen : ids of tasks whose kernels there are in bfloat16.
    edges : of the forms, those that are in bfloat16 in memory.
    """
    if not chosen:
        return mod
    positions = {original_position(task) for task in chosen}
    main = read_main(mod)
    writer = _Writer(mod, main, forms)
    for call in main.calls:
        form = form_of(call.position, positions, edges)
        if form != Form():
            writer.replace(call, form)
    return writer.module()


class _Writer:
    """Writes calls of kernels in other forms; each kernel and each constant is made once."""

    def __init__(self, mod: tvm.IRModule, main: LoweredMain, forms: KernelForms) -> None:
        self._main = main
        self._forms = forms
        self._builder = relax.BlockBuilder(mod)
        self._kernels: dict[str, tvm.ir.GlobalVar] = {}
        self._words: dict[tuple[Any, int], Any] = {}
        self._bindings: dict[relax.Var, relax.VarBinding] = {}
        self._vars: dict[relax.Var, relax.Var] = {}

    def replace(self, call: KernelCall, form: Form) -> None:
        """Let a call be of its kernel in that form; calls come in their order."""
        name = call.kernel.name_hint
        own = form.name(name)
        if own not in self._kernels:
            self._kernels[own] = self._builder.add_func(self._forms.function(name, form), own)
        args = [
            self._vars.get(arg, arg) if isinstance(arg, relax.Var) else arg for arg in call.args
        ]
        if form.narrow:
            narrow = self._forms.narrow[name]
            args[narrow.weights] = self._weights(call, narrow)
        types, var = call.expr.ty_args, call.var
        if form.writes:
            types = [relax.TensorType(call.outputs[0].shape, NARROW)]
            var = self._vars[call.var] = relax.Var(call.var.name, types[0])
        arguments = [self._kernels[own], relax.Tuple(args)]
        value = relax.Call(call.expr.op, arguments, call.expr.attrs, types)
        self._bindings[call.var] = relax.VarBinding(var, value)

    def _weights(self, call: KernelCall, narrow: NarrowKernel) -> Any:
        value = _weights_of(call, narrow)
        key = value, narrow.axis
        if key not in self._words:
            words = narrow.pack_weights(array_of(value))
            self._words[key] = relax.const(tvm.runtime.tensor(words))
        return self._words[key]

    def module(self) -> tvm.IRModule:
        """The module of these calls, without the kernels that nobody calls any more."""
        old = self._main.function
        bindings = [
            self._bindings.get(binding.var, binding)
            for block in old.body.blocks
            for binding in block.bindings
        ]
        body = relax.SeqExpr([relax.DataflowBlock(bindings)], old.body.body)
        main = relax.Function(old.params, body, old.ret_ty, attrs=old.attrs)
        module = self._builder.get()
        module["main"] = main
        module = relax.transform.Normalize()(module)
        return relax.transform.DeadCodeElimination(["main"])(module)
