"""What is tried on a test, each in a child process: TVM hetero, on a GPU too, and ONNX Runtime.

An engine yields ``(variant, outcome, reason)``. Outcomes: *right*; *wrong* (other numbers, shapes
or types than the suite says); *rounding* (beyond its tolerance, yet no more than two units in the
last place of an output's greatest value); *refused* (one of our own errors); *exception* (any other
one). What ends or hangs the child is told apart by its parent (`conforming.children`).
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np
import onnx

from benchmarks.conforming.suite import SuiteTest, Value
from benchmarks.conforming.variants import with_constants, with_kernels_behind

RIGHT, WRONG, REFUSED, EXCEPTION = "right", "wrong", "refused", "exception"
ROUNDING = "rounding"
CRASH, TIMEOUT = "crash", "timeout"
RAW, VALUES, NETWORKS = "raw", "values", "networks"
VARIANTS = (RAW, VALUES, NETWORKS)
Result = tuple[str, str, str]
_REASON = 400
# What our refusal says of an input whose value decides shapes.
_VALUE_ASKED = re.compile(r"--value ['\"]?([\w.:/-]+?)['\"]?=")
_ROUNDS = 4


def ours(test: SuiteTest) -> Iterator[Result]:
    """Try a test as the suite has it, with the values that we ask for, and as in networks."""
    begun, raw = (RAW, "", ""), attempt(test)
    yield begun
    yield (RAW, *raw)
    yield (VALUES, "", "")
    yield (VALUES, *_with_values(test, raw))
    yield (NETWORKS, "", "")
    yield (NETWORKS, *_as_in_networks(test, raw))


def ours_on_gpu(test: SuiteTest) -> Iterator[Result]:
    """Try a test with every kernel on the GPU, and with the values that we ask for."""
    yield (RAW, "", "")
    yield (RAW, *_with_values(test, attempt(test, (), cpu_and_gpu()), cpu_and_gpu()))


def _with_values(test: SuiteTest, found: tuple[str, str], platform: Any = None) -> tuple[str, str]:
    """Try again with the values of the inputs that a refusal names, until it names no new one."""
    fixed: set[str] = set()
    for _ in range(_ROUNDS):
        asked = set(_VALUE_ASKED.findall(found[1])) if found[0] == REFUSED else set()
        if asked <= fixed or not takes_values():
            break
        fixed |= asked
        found = attempt(test, fixed, platform)
    return found


def _as_in_networks(test: SuiteTest, found: tuple[str, str]) -> tuple[str, str]:
    """Try with constants; and where that is refused, with kernels behind (it may be mere views)."""
    constant = with_constants(test, test.parameters)
    if constant is not test:
        found = attempt(constant)
    if found[0] == REFUSED:
        behind = with_kernels_behind(constant)
        second = found if behind is None else attempt(behind)
        # What is refused either way is refused for what the test itself says.
        found = found if second[0] == REFUSED else second
    return found


def onnx_runtime(test: SuiteTest) -> Iterator[Result]:
    """Try a test on ONNX Runtime."""
    from benchmarks.conforming.runtime import runner

    yield (RAW, "", "")
    try:
        yield (RAW, *_compared(test, runner(test.model)))
    except Exception as error:
        yield (RAW, REFUSED, _reason("", error))


ENGINES: dict[str, Callable[[SuiteTest], Iterator[Result]]] = {
    "ours": ours,
    "gpu": ours_on_gpu,
    "onnxruntime": onnx_runtime,
}


@cache
def takes_values() -> bool:
    """Return whether inputs can be fixed by value on import."""
    from tvm_hetero.frontends.onnx import from_onnx

    return "values" in inspect.signature(from_onnx).parameters


def attempt(test: SuiteTest, fixed: Collection[str] = (), platform: Any = None) -> tuple[str, str]:
    """Return what becomes of one model, placed on two CPU devices or on those of a platform, and
    why if it is not right.
    """
    from tvm_hetero.errors import HeteroError

    stage = "import"
    try:
        model = onnx.load_from_string(test.model)
        values = {
            value.name: data
            for value, data in zip(test.inputs_of(model.graph), test.data[0][0], strict=False)
            if value.name in fixed
        }
        module = _imported(model, values)
        stage = "place"
        placed = _placed(module, platform or two_cpus())
        stage = "build"
        with _executor(placed) as executor:
            stage = "run"
            names = [value.name for value in test.inputs_of(model.graph)]
            needed = [str(name) for name in module["main"].attrs["hetero_input_names"]]

            def run(inputs: Sequence[Value]) -> list[Value]:
                given = dict(zip(names, inputs, strict=False))
                outputs = executor.run({name: given[name] for name in needed})
                return [output.numpy() for output in outputs]

            return _compared(test, run)
    except HeteroError as error:
        return REFUSED, _reason(stage, error)
    except Exception as error:
        return EXCEPTION, _reason(stage, error)


def _imported(model: onnx.ModelProto, values: dict[str, Value]) -> Any:
    from tvm_hetero.frontends.onnx import from_onnx

    keywords: dict[str, Any] = {"values": values} if values else {}
    return from_onnx(model, **keywords)


def _placed(module: Any, platform: Any) -> Any:
    from tvm_hetero.pipeline.options import PartitionOptions
    from tvm_hetero.pipeline.partition import partition

    options = PartitionOptions(cost_model="analytical", time_limit=1)
    return partition(module, platform, options).module


@cache
def two_cpus() -> Any:
    """Return a platform of two cores as two devices, with made-up figures for analytical costs."""
    import tvm_hetero as th

    def device(core: int) -> th.Device:
        return th.Device(
            f"cpu{core}", target={"kind": "llvm"}, cores=(core,), peak_flops=1e11,
            bandwidth=1e10, launch=1e-6,
        )  # fmt: skip

    return th.Platform(tuple(device(core) for core in sorted(os.sched_getaffinity(0))[:2]))


@cache
def cpu_and_gpu() -> Any:
    """Return a platform of a core and the first GPU, which the figures make the quicker by far."""
    import tvm_hetero as th
    from tvm_hetero.platform.host import read_gpus

    found = read_gpus()
    arch = found[0].arch if found else "sm_90"  # without a GPU kernels are compiled all the same
    cpu = th.Device(
        "cpu0", target={"kind": "llvm"}, cores=(min(os.sched_getaffinity(0)),),
        peak_flops=1e6, bandwidth=1e6, launch=1.0, overlap=True,
    )  # fmt: skip
    gpu = th.Device(
        "gpu0", target={"kind": "cuda", "arch": arch}, peak_flops=1e15, bandwidth=1e14,
        launch=1e-9, overlap=True,
    )  # fmt: skip
    ways = (("cpu0", "gpu0"), ("gpu0", "cpu0"))
    return th.Platform((cpu, gpu), tuple(th.Link(*way, 1e15, 1e-12) for way in ways))


def _executor(placed: Any) -> Any:
    import tvm_hetero as th

    return th.Executor(th.build(placed, single=False))


def _compared(test: SuiteTest, run: Callable[[Sequence[Value]], list[Value]]) -> tuple[str, str]:
    """Compare as onnx's own runner does, on each of the test's data."""
    from onnx.backend.test.runner import Runner

    for inputs, results in test.data:
        # A sequence may be handed out tensor by tensor: what it holds must be the same.
        found, expected = _flat(run(inputs)), _flat(results)
        try:
            Runner.assert_similar_outputs(expected, found, test.rtol, test.atol)
        except (AssertionError, TypeError, AttributeError) as error:
            kind = ROUNDING if differ_by_rounding(expected, found) else WRONG
            return kind, _reason("", error)
    return RIGHT, ""


def _flat(values: Sequence[Value]) -> list[Value]:
    """Return the tensors, those in sequences too, in order."""
    return [each for value in values for each in (value if isinstance(value, list) else [value])]


def differ_by_rounding(expected: Sequence[Value], found: Sequence[Value]) -> bool:
    """Return whether floats differ by no more than two units in the last place of the greatest.

    Sums in another order do: of half precision, or where terms cancel to nothing.
    """
    return len(expected) == len(found) and all(map(_near, expected, found))


def _near(expected: Value, found: Value) -> bool:
    if getattr(expected, "shape", None) != getattr(found, "shape", 0):
        return False
    if expected.dtype != found.dtype or expected.dtype.kind != "f":
        return expected.dtype == found.dtype and bool(np.array_equal(expected, found))
    finite = np.isfinite(expected)
    if not np.array_equal(expected[~finite], found[~finite], equal_nan=True) or not finite.any():
        return bool(np.array_equal(expected, found, equal_nan=True))
    unit = float(np.spacing(np.abs(expected[finite]).max()))
    difference = np.abs(expected[finite].astype(np.float64) - found[finite].astype(np.float64))
    return bool(np.isfinite(found[finite]).all()) and float(difference.max()) <= 2 * unit


def _reason(stage: str, error: Exception) -> str:
    kind = type(error).__name__
    text = " ".join(f"{stage + ': ' if stage else ''}{kind}: {error}".split())
    return text[:_REASON]
