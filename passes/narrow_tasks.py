"""Tasks in bfloat16: their kernels and weights take the place of those of float32.

A lowered module computes in float32. `narrow_kernels` says which of its kernels there are in
bfloat16 too (`tvm_hetero.kernels.narrow_kernel`), `narrow_tasks` makes the module in which some
tasks are computed by them. What goes between tasks stays float32, so any of them can be chosen.
Such a task's weights are words of two numbers, rounded here and kept so in the artifact.

A narrow kernel has the name of the other one and `SUFFIX`, and so has the id of its task: whoever
reads a plan sees it. Ids begin with the task's position in any case.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import tvm
import tvm_ffi
from tvm import relax

from tvm_hetero.kernels.narrow_kernel import NarrowKernel, narrow_kernel
from tvm_hetero.kernels.tir.array_values import array_of
from tvm_hetero.kernels.tir.conditions import conditions_of
from tvm_hetero.passes.extract_tasks import ExtractedTasks
from tvm_hetero.passes.kernel import Kernel
from tvm_hetero.passes.lowered_main import KernelCall, original_position, read_main

SUFFIX = "_bfloat16"


def narrow_name(kernel: str) -> str:
    """What the kernel of that name is called in bfloat16."""
    return kernel + SUFFIX


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


def as_kernel(kernel: Kernel, narrow: NarrowKernel) -> Kernel:
    """A kernel in bfloat16, to ask a cost model about; its weights are two bytes a number."""
    before, after = (_size(func.params[narrow.weights]) for func in (kernel.func, narrow.func))
    size = kernel.bytes - before + after
    return replace(kernel, name=narrow_name(kernel.name), func=narrow.func, bytes=size)


def _size(param: tvm.tirx.Var) -> int:
    """Bytes of a parameter."""
    values = math.prod(int(extent) for extent in param.shape)
    return values * int(tvm_ffi.dtype(str(param.dtype)).bits) // 8


def narrow_tasks(
    mod: tvm.IRModule, narrow: Mapping[str, NarrowKernel], chosen: Collection[str]
) -> tvm.IRModule:
    """The module in which the `chosen` tasks are computed in bfloat16.

    Parameters
    ----------
    mod : a lowered module, not placed.
    narrow : what `narrow_kernels` gave for it.
    chosen : ids of tasks whose kernels are among these.
    """
    if not chosen:
        return mod
    main, writer = read_main(mod), _Writer(mod, narrow)
    positions = {original_position(task) for task in chosen}
    calls = {c.var: writer.call(c) for c in main.calls if c.position in positions}
    bindings = [
        relax.VarBinding(binding.var, calls.get(binding.var, binding.value))
        for block in main.function.body.blocks
        for binding in block.bindings
    ]
    body = relax.SeqExpr([relax.DataflowBlock(bindings)], main.function.body.body)
    function = relax.Function(
        main.function.params, body, main.function.ret_ty, attrs=main.function.attrs
    )
    return writer.module(function)


class _Writer:
    """Writes calls of narrow kernels; each kernel and each constant is made once."""

    def __init__(self, mod: tvm.IRModule, narrow: Mapping[str, NarrowKernel]) -> None:
        self._mod = mod
        self._narrow = narrow
        self._builder = relax.BlockBuilder(mod)
        self._kernels: dict[str, tvm.ir.GlobalVar] = {}
        self._words: dict[tuple[Any, int], Any] = {}

    def call(self, call: KernelCall) -> relax.Call:
        """A call with its kernel and its weights in bfloat16."""
        name = call.kernel.name_hint
        narrow = self._narrow[name]
        if name not in self._kernels:
            self._kernels[name] = self._builder.add_func(narrow.func, narrow_name(name))
        args = list(call.args)
        args[narrow.weights] = self._weights(call, narrow)
        arguments = [self._kernels[name], relax.Tuple(args)]
        return relax.Call(call.expr.op, arguments, call.expr.attrs, call.expr.ty_args)

    def _weights(self, call: KernelCall, narrow: NarrowKernel) -> Any:
        value = _weights_of(call, narrow)
        key = value, narrow.axis
        if key not in self._words:
            words = narrow.pack_weights(array_of(value))
            self._words[key] = relax.const(tvm.runtime.tensor(words))
        return self._words[key]

    def module(self, main: relax.Function) -> tvm.IRModule:
        """The module with that ``main``, without the kernels that nobody calls any more."""
        module = self._builder.get()
        module["main"] = main
        module = relax.transform.Normalize()(module)
        return relax.transform.DeadCodeElimination(["main"])(module)
