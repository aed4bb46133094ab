"""A network run task by task on one core, any of its tasks in bfloat16.

What a choice does to the outputs is asked for each task by itself, and some times for many of them:
hundreds of networks that differ in a few kernels. None is built. All kernels are compiled once, in
both precisions (by what measured them they are in the cache), and called in the order of ``main``.
A run in float32 is kept whole (`NetworkTrace`); of another one only what comes after its first task
in bfloat16 is computed again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm

from tvm_hetero.compiler.kernel_cache import compile_library, schedule_kernels
from tvm_hetero.errors import RunError, UsageError
from tvm_hetero.executor.kernel_library import load_kernels
from tvm_hetero.kernels.narrow_kernel import NarrowKernel
from tvm_hetero.kernels.tir.array_values import array_of
from tvm_hetero.passes.extract_tasks import ExtractedTasks
from tvm_hetero.passes.lowered_main import (
    KernelCall,
    TensorSource,
    static_shape,
    tensor_bytes,
)
from tvm_hetero.passes.narrow_tasks import narrow_name
from tvm_hetero.pipeline.precision.calibration_inputs import check_inputs
from tvm_hetero.platform.host import read_free_memory
from tvm_hetero.util.text_tables import count_noun
from tvm_hetero.util.units import format_bytes

Tensors = dict[TensorSource, Any]


@dataclass(frozen=True)
class NetworkTrace:
    """A run in float32: every tensor that it made, and its outputs."""

    tensors: Tensors
    outputs: list[np.ndarray[Any, Any]]


@dataclass(frozen=True)
class _Argument:
    """What a kernel is called with, or the network gives: a constant, or what a kernel has made, in
    some shape.
    """

    source: TensorSource | None
    constant: Any
    shape: tuple[int, ...]

    def among(self, tensors: Tensors) -> Any:
        """The tensor itself, of those that a run has made."""
        return self.constant if self.source is None else _viewed(tensors[self.source], self.shape)


class NetworkRunner:
    """Runs a network's tasks.

    Parameters
    ----------
    tasks : of the lowered module.
    narrow : its kernels in bfloat16, by the names of those in float32.
    target : of a CPU of this machine; one core of it is used.
    """

    def __init__(
        self, tasks: ExtractedTasks, narrow: Mapping[str, NarrowKernel], target: tvm.target.Target
    ) -> None:
        self._main, self._narrow = tasks.main, narrow
        alone = tvm.target.Target({**target.export(), "num-cores": 1})
        kernels = {kernel.name: kernel.func for kernel in tasks.kernels}
        kernels |= {narrow_name(name): each.func for name, each in narrow.items()}
        self._library = load_kernels(compile_library(schedule_kernels(kernels, alone), alone))
        self._arguments = [self._arguments_of(call) for call in self._main.calls]
        # To ask TVM at each call took a tenth of a calibration.
        self._made = [
            [(static_shape(ty, call.kernel.name_hint), str(ty.dtype)) for ty in call.outputs]
            for call in self._main.calls
        ]
        self._results = [self._argument(each, "an output") for each in self._main.results()]
        self._words: dict[tuple[Any, int], Any] = {}

    @property
    def end_bytes(self) -> int:
        """The bytes of a run's inputs and outputs."""
        types = [*(p.ty for p in self._main.params), *(r.ty for r in self._main.results())]
        return sum(tensor_bytes(ty) for ty in types)

    def check_memory(self, count: int) -> None:
        """Refuse so many inputs that their traces, which are kept whole, are not held here.

        Raises
        ------
        UsageError
            If they would take more than half of what programs can have now.
        """
        each = sum(tensor_bytes(ty) for call in self._main.calls for ty in call.outputs)
        free = read_free_memory()
        if free is not None and count * each > free // 2:
            cure = "give fewer" if count > 1 else "take float32, or a machine with more memory"
            raise UsageError(
                f"calibration: the tensors of {count_noun(count, 'input')} are kept, "
                f"{format_bytes(each)} of each, which is more than half of the "
                f"{format_bytes(free)} that are free; {cure}"
            )

    def trace(self, inputs: Mapping[str, Any]) -> NetworkTrace:
        """Run in float32.

        Raises
        ------
        UsageError
            If the inputs are others than the model's.
        RunError
            If a kernel refuses them.
        """
        return self._trace(inputs, ())

    def outputs(
        self, inputs: Mapping[str, Any], chosen: Collection[str] = ()
    ) -> list[np.ndarray[Any, Any]]:
        """The outputs with the `chosen` tasks in bfloat16, the others as the module has them.

        Errors are those of `trace`.
        """
        return self._trace(inputs, chosen).outputs

    def _trace(self, inputs: Mapping[str, Any], chosen: Collection[str]) -> NetworkTrace:
        check_inputs(self._main, inputs)
        tensors: Tensors = {}
        for i, name in enumerate(self._main.inputs):
            values = np.ascontiguousarray(inputs[name])
            tensors[TensorSource(None, i)] = tvm.runtime.tensor(values)
        for call, task in zip(self._main.calls, self._main.task_ids, strict=True):
            self._run(call, tensors, narrow=task in chosen)
        return NetworkTrace(tensors, self._outputs(tensors))

    def rerun(self, trace: NetworkTrace, chosen: Collection[str]) -> list[np.ndarray[Any, Any]]:
        """The outputs for the same inputs with the `chosen` tasks (by their ids) in bfloat16."""
        tensors = dict(trace.tensors)
        changed: set[TensorSource] = set()
        for call, task in zip(self._main.calls, self._main.task_ids, strict=True):
            narrow = task in chosen
            if narrow or not changed.isdisjoint(self._main.reads(call)):
                changed |= self._run(call, tensors, narrow=narrow)
        return self._outputs(tensors)

    def _run(self, call: KernelCall, tensors: Tensors, *, narrow: bool) -> set[TensorSource]:
        """Call one kernel; the tensors that it has made, which are noted."""
        name = call.kernel.name_hint
        args = [a.among(tensors) for a in self._arguments[call.position]]
        if narrow:
            kernel = self._narrow[name]
            args[kernel.weights] = self._words_of(args[kernel.weights], kernel)
        made = {
            TensorSource(call.position, k): tvm.runtime.empty(shape, dtype)
            for k, (shape, dtype) in enumerate(self._made[call.position])
        }
        symbol = narrow_name(name) if narrow else name
        try:
            self._library[symbol](*args, *made.values())
        except (IndexError, ValueError, RuntimeError) as error:
            reason = (str(error).strip().splitlines() or [type(error).__name__])[-1]
            raise RunError(
                f"calibration: kernel {name!r} refuses what it is given ({reason}); give inputs "
                "that the model takes (--calibration X.npz)"
            ) from None
        tensors.update(made)
        return set(made)

    def _words_of(self, weights: Any, kernel: NarrowKernel) -> Any:
        """The weights in bfloat16, made once."""
        key = weights, kernel.axis
        if key not in self._words:
            self._words[key] = tvm.runtime.tensor(kernel.pack_weights(array_of(weights)))
        return self._words[key]

    def _arguments_of(self, call: KernelCall) -> list[_Argument]:
        return [self._argument(arg, call.kernel.name_hint) for arg in call.args]

    def _argument(self, expr: Any, where: str) -> _Argument:
        shape, constant = static_shape(expr.ty, where), self._main.constant(expr)
        if constant is None:
            return _Argument(self._main.root(expr), None, shape)
        return _Argument(None, _viewed(constant, shape), shape)

    def _outputs(self, tensors: Tensors) -> list[np.ndarray[Any, Any]]:
        return [result.among(tensors).numpy() for result in self._results]


def _viewed(tensor: Any, shape: tuple[int, ...]) -> Any:
    return tensor if tuple(tensor.shape) == shape else tensor._create_view(shape)
