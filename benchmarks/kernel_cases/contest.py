"""One family's cases, built three ways and timed in turns in this process.

    ours      LowerToTasks, `schedule_kernel` for every kernel, one build for many cases
    default   TVM's own pipeline with no schedule: what it gives without tuning
    ort       ONNX Runtime, one thread, input and output bound (no allocation in the call)

Thread CPU time, the least of many; what a call costs (the family's tiniest case, same way of
calling) is measured in the same run and subtracted from each.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnxruntime
import tvm
from numpy.typing import NDArray
from tvm import relax, tirx
from tvm.relax.expr_functor import PyExprMutator, mutator

from tvm_hetero.executor.native import load_library
from tvm_hetero.frontends.onnx import from_onnx
from tvm_hetero.kernels import schedule_kernel
from tvm_hetero.kernels.cpu.compilation import PIPELINE
from tvm_hetero.kernels.select import rule_of
from tvm_hetero.passes.lower_to_tasks import LowerToTasks

from .case import Case
from .peaks import Peaks

TOLERANCE = 1e-3
_FLOAT32 = 1e-6  # more than what float32 rounds by
_WEIGHTS_TOGETHER = 256 << 20  # bytes of constants in one build
_CASES_TOGETHER = 64
_READING = 2e-4  # seconds that one reading of the clock spans at least
_LEAST = 5e-7  # seconds: what is quicker counts as this, for calls vary by that much
_SLOW = 0.05  # seconds: a default kernel slower than this runs once

Call = Callable[[], Any]


@dataclass(frozen=True)
class Row:
    """Speeds in ``unit``; ``error`` over the deviation of ONNX Runtime's result."""

    family: str
    case: str
    where: str
    rule: str
    unit: str
    ours_us: float
    default_us: float | None
    ort_us: float
    ours: float
    default: float | None
    ort: float
    peak: float
    ratio: float
    error: float


@dataclass(frozen=True)
class Overhead:
    """Seconds that calling costs on each side."""

    ours: float
    ort: float


def batches(cases: Sequence[Case]) -> Iterator[list[Case]]:
    """Cases in portions that fit into one build."""
    batch: list[Case] = []
    size = 0
    for case in cases:
        full = len(batch) == _CASES_TOGETHER or size + case.weight_bytes > _WEIGHTS_TOGETHER
        if batch and full:
            yield batch
            batch, size = [], 0
        batch.append(case)
        size += case.weight_bytes
    if batch:
        yield batch


class Contest:
    """Builds and measures cases for one target."""

    def __init__(
        self, target: tvm.target.Target, peaks: Peaks, seconds: float, default: bool
    ) -> None:
        load_library()  # kernels' workspaces are in huge pages, as in the executor
        self.target = target
        self.peaks = peaks
        self.seconds = seconds  # of timing, for each side of each case
        self.default = default

    def overhead(self, tiny: Case) -> Overhead:
        """What a call costs: the tiniest case of a family."""
        (sides,) = self._sides([tiny])
        ours, ort = in_turns([sides.ours, sides.ort.run], self.seconds)
        return Overhead(ours, ort)

    def rows(self, family: str, cases: Sequence[Case], overhead: Overhead) -> Iterator[Row]:
        """Measure the cases, portion by portion."""
        for batch in batches(cases):
            for case, sides in zip(batch, self._sides(batch), strict=True):
                yield self._row(family, case, sides, overhead)

    def _row(self, family: str, case: Case, sides: Sides, overhead: Overhead) -> Row:
        sides.ort.run()
        expected = sides.ort.result()
        error = relative_error(sides.ours().numpy(), expected)
        ours, ort = in_turns([sides.ours, sides.ort.run], self.seconds)
        ours, ort = _without(ours, overhead.ours), _without(ort, overhead.ort)
        default = None
        if sides.default is not None:
            default = _without(least_time(sides.default, self.seconds / 4), overhead.ours)
        arrays = moved_bytes(case)
        return Row(
            family, case.name, case.where, sides.rule, case.unit,
            ours * 1e6, None if default is None else default * 1e6, ort * 1e6,
            case.work / ours / 1e9, None if default is None else case.work / default / 1e9,
            case.work / ort / 1e9, self.peaks.of(case.bound, arrays), ours / ort, error,
        )  # fmt: skip

    def _sides(self, cases: Sequence[Case]) -> Iterator[Sides]:
        models = [case.model() for case in cases]
        relaxed = [from_onnx(model) for model in models]
        lowered = [scheduled(LowerToTasks([self.target])(mod), self.target) for mod in relaxed]
        ours = machine(lowered, self.target)
        default = machine(relaxed, self.target, "default") if self.default else None
        for i, case in enumerate(cases):
            arrays = case.arrays()
            session = Session(models[i], arrays)
            tensors = [tvm.runtime.tensor(arrays[name]) for name in case.inputs]
            yield Sides(
                caller(ours[f"case{i}"], tensors),
                caller(default[f"case{i}"], tensors) if default is not None else None,
                session,
                _rules(lowered[i]),
            )


class Session:
    """ONNX Runtime on one thread with its input and output bound."""

    def __init__(self, model: Any, arrays: dict[str, NDArray[Any]]) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 3
        self._session = onnxruntime.InferenceSession(model.SerializeToString(), options)
        (output,) = [o.name for o in self._session.get_outputs()]
        value = self._session.run(None, arrays)[0]
        self._out = onnxruntime.OrtValue.ortvalue_from_numpy(value)
        self._binding = self._session.io_binding()
        for name, array in arrays.items():
            self._binding.bind_ortvalue_input(name, onnxruntime.OrtValue.ortvalue_from_numpy(array))
        self._binding.bind_ortvalue_output(output, self._out)

    def run(self) -> None:
        """One run into the bound output."""
        self._session.run_with_iobinding(self._binding)

    def result(self) -> NDArray[Any]:
        """The output of the last run."""
        return np.asarray(self._out.numpy())


@dataclass(frozen=True)
class Sides:
    """One case, ready to be called."""

    ours: Call
    default: Call | None
    ort: Session
    rule: str


def relative_error(actual: NDArray[Any], expected: NDArray[Any]) -> float:
    """The largest difference over the expected values' deviation; infinite for NaN.

    What a number of 16 bits is rounded by is no difference: both sides round.
    """
    if actual.shape != expected.shape and actual.size != expected.size:
        return float("inf")
    bits = float(np.finfo(expected.dtype).eps)
    actual = actual.reshape(expected.shape).astype(np.float64)
    expected = expected.astype(np.float64)
    spread = float(expected.std()) or float(np.abs(expected).max()) or 1.0
    rounded = bits * np.abs(expected) if bits > _FLOAT32 else 0.0
    error = float(np.maximum(np.abs(actual - expected) - rounded, 0).max()) / spread
    return error if np.isfinite(error) else float("inf")


def moved_bytes(case: Case) -> float:
    """Bytes that the kernel's working set has, roughly: what it reads and its constants."""
    return case.work if case.bound != "compute" else float(case.weight_bytes)


def in_turns(functions: Sequence[Call], seconds: float) -> list[float]:
    """Least thread CPU time of a call of each, readings taken alternately."""
    together = [_calls_in_a_reading(function) for function in functions]
    best = [float("inf")] * len(functions)
    spent, limit = 0.0, seconds * len(functions)
    while spent < limit:
        for i, function in enumerate(functions):
            start = time.thread_time()
            for _ in range(together[i]):
                function()
            taken = time.thread_time() - start
            best[i] = min(best[i], taken / together[i])
            spent += taken
    return best


def least_time(function: Call, seconds: float) -> float:
    """Least thread CPU time of a call; a slow one runs twice at most."""
    start = time.thread_time()
    function()
    first = time.thread_time() - start
    return first if first > _SLOW else min(first, *in_turns([function], seconds))


def _calls_in_a_reading(function: Call) -> int:
    function()
    start = time.thread_time()
    function()
    return max(1, int(_READING / max(1e-7, time.thread_time() - start)))


def _without(seconds: float, overhead: float) -> float:
    """A time less that of the call, which is not known better than `_LEAST`."""
    return max(seconds - overhead, _LEAST)


def caller(function: Any, tensors: Sequence[Any]) -> Call:
    """A call of the function with these tensors."""
    if len(tensors) == 1:
        (only,) = tensors
        return lambda: function(only)
    return lambda: function(*tensors)


def _rules(mod: tvm.IRModule) -> str:
    """The rules of a module's kernels, each once."""
    rules = [rule_of(f) for _, f in mod.functions_items() if isinstance(f, tirx.PrimFunc)]
    return "+".join(sorted(set(rules)))


def scheduled(mod: tvm.IRModule, target: tvm.target.Target) -> tvm.IRModule:
    """The module with every kernel scheduled by its rule."""
    functions = {
        gv: schedule_kernel(f, target) if isinstance(f, tirx.PrimFunc) else f
        for gv, f in mod.functions_items()
    }
    return tvm.IRModule(functions, attrs=mod.attrs)


def machine(
    modules: Sequence[tvm.IRModule], target: tvm.target.Target, pipeline: str = PIPELINE
) -> Any:
    """A virtual machine with the `main` of module i as `case{i}`."""
    builder = relax.BlockBuilder()
    for i, mod in enumerate(modules):
        functions = {gv: f for gv, f in mod.functions_items() if gv.name_hint != "main"}
        # The builder gives each kernel a name of its own.
        fresh = {gv: builder.add_func(f, gv.name_hint) for gv, f in functions.items()}
        main = _Renamer(fresh).visit_expr(mod["main"])
        builder.add_func(main.with_attr("global_symbol", f"case{i}"), f"case{i}")
    executable = tvm.compile(builder.get(), target, tir_pipeline=pipeline)
    return relax.VirtualMachine(executable, tvm.cpu())


@mutator
class _Renamer(PyExprMutator):  # type: ignore[misc]
    def __init__(self, fresh: dict[tvm.ir.GlobalVar, tvm.ir.GlobalVar]) -> None:
        super().__init__()
        self.fresh = fresh

    def visit_global_var_(self, op: tvm.ir.GlobalVar) -> tvm.ir.GlobalVar:
        return self.fresh[op]
