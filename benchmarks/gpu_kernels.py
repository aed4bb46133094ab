"""Every kernel of models on the first GPU and on a core, on the same values: what differs.

    python -m benchmarks.gpu_kernels [--models NAME,NAME] [--suite REGEX] [--decoders] [--jobs N]
    python -m benchmarks.gpu_kernels --serial ...    # without a GPU: its threads one by one
    python -m benchmarks.gpu_kernels --compile ...   # without a GPU: by nvcc, not run

Needs a CUDA device and nvcc, but for --serial and --compile. Kernels are compiled and run one by
one, past the executor, so that a kernel's fault and the executor's are told apart. Models are the
light ones of the onnx package, those tests of its backend suite whose names match, and tiny
decoders of all families and types of weights. Prints a line for each that differs, and each that is
refused. The exit status is 1 if there is any.
"""

from __future__ import annotations

import argparse
import multiprocessing
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import tvm
from tvm import tirx
from tvm.support.nvcc import compile_cuda
from tvm.target import Target

from benchmarks.conforming.engines import cpu_and_gpu
from benchmarks.conforming.suite import suite_tests
from benchmarks.conforming.variants import with_constants
from benchmarks.execution.argument_types import names_of, pattern
from benchmarks.kernel_cases.serial_threads import called, serial
from tvm_hetero.cost_models.kernels_alone.kernel_values import sample
from tvm_hetero.decoders.build import WEIGHTS
from tvm_hetero.devices.target import device_target
from tvm_hetero.errors import HeteroError
from tvm_hetero.frontends.huggingface import from_huggingface
from tvm_hetero.frontends.onnx import from_onnx, light_models
from tvm_hetero.kernels import schedule_kernel
from tvm_hetero.kernels.cpu.compilation import build
from tvm_hetero.kernels.indexing.indirect_accesses import has_indirect_accesses
from tvm_hetero.kernels.select import rule_of
from tvm_hetero.passes.lower_to_tasks import LowerToTasks
from tvm_hetero.processes.torch_import import hide_torch

# By how much of the greatest value sums in another order may differ.
TOLERANCE = 1e-4
Kernel = tuple[str, str, str]  # model, name, function as TVM saves it


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare, print what differs; returns the exit status."""
    options = _parser().parse_args(arguments)
    if options.compile and shutil.which("nvcc") is None:
        sys.exit("nvcc is not on the PATH: there is nothing to compile with")
    kernels = [each for name, model in _models(options) for each in kernels_of(name, model)]
    kernels = list({text: (name, kernel, text) for name, kernel, text in kernels}.values())
    print(f"{len(kernels)} kernels", flush=True)
    context = multiprocessing.get_context("spawn")
    faults = 0
    compare = compared_serially if options.serial else compared
    compare = compiled if options.compile else compare
    with ProcessPoolExecutor(options.jobs, context, hide_torch) as pool:
        for (model, name, _), found in zip(kernels, pool.map(compare, kernels), strict=True):
            if found:
                faults += 1
                print(f"{model} {name}: {found}", flush=True)
    print(f"{faults} differ or are refused")
    return 1 if faults else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--models", type=names_of(light_models()), default=())
    parser.add_argument("--suite", type=pattern, help="tests whose names have this in them")
    parser.add_argument("--decoders", action="store_true", help="tiny ones of all families")
    parser.add_argument("--jobs", type=int, default=2)
    way = parser.add_mutually_exclusive_group()
    way.add_argument("--serial", action="store_true", help="run schedules for it on a core")
    way.add_argument("--compile", action="store_true", help="compile them, and run none")
    return parser


def _models(options: argparse.Namespace) -> Iterator[tuple[str, Any]]:
    """The models asked for, by name, as modules; tests that are refused are left out."""
    for name in options.models:
        yield name, from_onnx(light_models()[name], random_weights=0)
    for test in suite_tests() if options.suite else ():
        if options.suite.search(test.name):
            model = with_constants(test, test.parameters).model
            with suppress(HeteroError):
                yield test.name, from_onnx(onnx.load_from_string(model))
    if options.decoders:
        yield from _decoders()


def _decoders() -> Iterator[tuple[str, Any]]:
    """A step and a chunk of tiny decoders of all families and types of weights."""
    from tests.small_decoders import FAMILIES, tiny

    for family in FAMILIES:
        with tempfile.TemporaryDirectory() as folder:
            model = tiny(family, Path(folder) / family)
            for weights, tokens in product(WEIGHTS, (1, 4)):
                yield (
                    f"{family}, {weights}, {tokens} tokens",
                    from_huggingface(model, tokens=tokens, weights=weights),
                )


def kernels_of(name: str, module: tvm.IRModule) -> list[Kernel]:
    """The kernels of a model, lowered for a core and the GPU."""
    lowered = LowerToTasks(list(targets().values()))(module)
    return [
        (name, gv.name_hint, str(tvm.ir.save_json(func)))
        for gv, func in lowered.functions_items()
        if isinstance(func, tirx.PrimFunc)
    ]


@cache
def targets() -> dict[str, Target]:
    """The targets of a core and of the GPU, by kind."""
    found = {device.kind: device_target(device) for device in cpu_and_gpu().devices}
    return {kind: Target(target, host="llvm") for kind, target in found.items()}


def compared(kernel: Kernel) -> str:
    """What is wrong with a kernel on the GPU; empty if nothing is."""
    func = tvm.ir.load_json(kernel[2])
    given = _arguments(func)
    try:
        here, there = _called(func, "llvm", given), _called(func, "cuda", given)
    except Exception as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())[-300:]}"
    return _first_difference(there, here)


def _first_difference(
    found: Sequence[np.ndarray[Any, Any]], expected: Sequence[np.ndarray[Any, Any]]
) -> str:
    for i, (mine, other) in enumerate(zip(found, expected, strict=True)):
        if difference := _difference(mine, other):
            return f"argument {i} of {len(expected)}: {difference}"
    return ""


def compiled(kernel: Kernel) -> str:
    """What nvcc says against a kernel for the GPU; empty if nothing."""
    target = targets()["cuda"]
    done = schedule_kernel(tvm.ir.load_json(kernel[2]), target).with_attr("global_symbol", "kernel")
    try:
        functions = build(tvm.IRModule({"kernel": done}), target).imports
        if not functions:
            return f"{rule_of(done)}: no function of the device"
        for made in functions:
            with target:
                compile_cuda(made.inspect_source(), "cubin", target.attrs["arch"], compiler="nvcc")
    except Exception as error:
        said = [line for line in str(error).splitlines() if "error" in line]
        return f"{rule_of(done)}: {' '.join(said[:2])[:300]}"
    return ""


def compared_serially(kernel: Kernel) -> str:
    """What is wrong with a schedule for the GPU, its threads one after the other."""
    func = tvm.ir.load_json(kernel[2])
    given = [_of_both_signs(values) for values in _arguments(func)]
    done = schedule_kernel(func, targets()["cuda"])
    try:
        here = called(func.without_attr("target"), given)
    except IndexError:  # these values are none for it
        return ""
    loops = serial(done).without_attr("tirx.is_scheduled").without_attr("target")
    try:
        there = called(loops, given)
    except Exception as error:  # a barrier between threads, for one
        return f"{rule_of(done)}: cannot be run so: {' '.join(str(error).split())[-300:]}"
    found = _first_difference(there, here)
    return f"{rule_of(done)}: {found}" if found else ""


def _of_both_signs(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Floats from -1.6 to 2: what is cut off at zero must be seen."""
    return (values - 0.5) * 4 if values.dtype.kind == "f" else values


def _arguments(func: Any) -> list[np.ndarray[Any, Any]]:
    """Values for a kernel; integers are 1, which divides, or 0 where they may be indices."""
    whole = 0 if has_indirect_accesses(func) else 1
    drawn = [
        sample(i, [int(extent) for extent in var.ty.shape], str(var.dtype))
        for i, var in enumerate(func.params)
    ]
    return [np.full_like(each, whole) if each.dtype.kind in "iu" else each for each in drawn]


def _called(
    func: Any, kind: str, given: Sequence[np.ndarray[Any, Any]]
) -> list[np.ndarray[Any, Any]]:
    """What a kernel makes of its arguments on a core or on the GPU."""
    target = targets()[kind]
    kernel = schedule_kernel(func, target).with_attr("global_symbol", "kernel")
    library = build(tvm.IRModule({"kernel": kernel}), target)
    device = tvm.cpu() if kind == "llvm" else tvm.cuda(0)
    arguments = [tvm.runtime.tensor(each, device) for each in given]
    library["kernel"](*arguments)
    device.sync()
    return [each.numpy() for each in arguments]


def _difference(mine: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> str:
    """How two arrays differ beyond rounding; empty if they do not."""
    a, b = mine.astype(np.float64), other.astype(np.float64)
    scale = max(float(np.abs(b[np.isfinite(b)]).max(initial=0.0)), 1e-30)
    off = ~((np.abs(a - b) <= TOLERANCE * scale) | (a == b) | (np.isnan(a) & np.isnan(b)))
    if not off.any():
        return ""
    first = tuple(int(i) for i in np.argwhere(off)[0])
    return (
        f"{int(off.sum())} of {off.size} values, first at {first}: {a[first]:g}, not {b[first]:g}"
    )


if __name__ == "__main__":
    sys.exit(main())
