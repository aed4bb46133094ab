"""What kernels gain by sums in registers, by asking for data ahead, by workspaces in huge pages.

    python -m benchmarks.asking                writes results/asking.json
    python -m benchmarks.asking --small        seconds (the tests run it)

Convolutions of the light models whose data do not fit half of a second-level cache, one thread,
thread CPU time, the least of readings in turns. Each variant has what those before it have:

    tvm         kernels compiled by TVM's own pipeline: sums in a workspace
    registers   sums on the stack (`tvm_hetero/kernels/cpu/compilation.py`)
    ahead       data of channels to come are asked for (`prefetch_channels.py`)
    pages       workspaces are ours (src/memory/workspace.h)
    ort         ONNX Runtime, for comparison

Products of 8 rows by weights of a decoder on two threads, which ask for weights ahead in both
variants, wall clock: `tvm` and `registers`. (A process's libraries take the workspaces that are
registered when they are loaded, so those with TVM's are loaded first.)
"""

from __future__ import annotations

import argparse
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import pairwise
from typing import Any
from unittest.mock import patch

import tvm

from benchmarks.decoding import kernel_cases
from benchmarks.documents import write_document
from benchmarks.execution.arguments import RESULTS
from benchmarks.kernel_cases import FAMILIES
from benchmarks.kernel_cases.case import Case
from benchmarks.kernel_cases.contest import (
    Session,
    caller,
    in_turns,
    machine,
    relative_error,
    scheduled,
)
from benchmarks.scheduling.runner import geometric_mean
from tvm_hetero.devices.target import own_mcpu
from tvm_hetero.executor.native import load_library
from tvm_hetero.executor.tensors import copy_lasting
from tvm_hetero.frontends.onnx import from_onnx
from tvm_hetero.kernels import schedule_kernel
from tvm_hetero.kernels.convolution import packed
from tvm_hetero.kernels.cpu.compilation import PIPELINE
from tvm_hetero.kernels.cpu.vector_unit import vector_unit
from tvm_hetero.passes.lower_to_tasks import LowerToTasks

VARIANTS = ("tvm", "registers", "ahead", "pages")
_SECONDS, _SMALL_SECONDS = 0.1, 0.002
_ROWS, _THREADS = 8, 2
_SPAN, _SMALL_SPAN = 128 << 20, 1 << 20  # bytes of weights, so that each set comes from memory
_READINGS = 9
_VALUE = 4


@dataclass(frozen=True)
class Row:
    """One kernel: microseconds of each variant; `error` is the largest of theirs."""

    kind: str
    case: str
    us: dict[str, float]
    error: float


def main(arguments: Sequence[str] | None = None) -> list[Row]:
    """Measure, print and write; returns the rows."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--small", action="store_true", help="a few cases, no file")
    parser.add_argument("--target", default=own_mcpu(), help="LLVM's -mcpu")
    args = parser.parse_args(arguments)
    rows = []
    for row in (*convolutions(args.target, args.small), *products(args.target, args.small)):
        print(f"{row.kind:<12}{row.case:<44}" + _times(row.us), flush=True)
        rows.append(row)
    print("\n".join(summary(rows)))
    if not args.small:
        path = RESULTS / "asking.json"
        write_document(path, "python -m benchmarks.asking", map(asdict, rows), target=args.target)
        print(f"written to {path}")
    return rows


def convolutions(mcpu: str, small: bool) -> Iterator[Row]:
    """Every variant of every convolution with far data."""
    target = _target(mcpu, 1)
    cases = _far(vector_unit(target).l2 // 2, small)
    models = [case.model() for case in cases]
    lower = LowerToTasks([target], plain_sums=True)  # whose data are asked for
    lowered = [lower(from_onnx(model)) for model in models]
    with patch.object(packed, "prefetch_channels", lambda *_: None):
        plain = [scheduled(mod, target) for mod in lowered]
    ahead = [scheduled(mod, target) for mod in lowered]
    machines = {
        "tvm": machine(plain, target, "default"),
        "registers": machine(plain, target),
        "ahead": machine(ahead, target),
    }
    load_library()
    machines["pages"] = machine(ahead, target)
    for i, case in enumerate(cases):
        arrays = case.arrays()
        session = Session(models[i], arrays)
        session.run()
        tensors = [tvm.runtime.tensor(arrays[name]) for name in case.inputs]
        calls = [caller(machines[name][f"case{i}"], tensors) for name in VARIANTS]
        error = max(relative_error(call().numpy(), session.result()) for call in calls)
        taken = in_turns([*calls, session.run], _SMALL_SECONDS if small else _SECONDS)
        yield Row("convolution", case.name, _microseconds((*VARIANTS, "ort"), taken), error)


def _far(least: int, small: bool) -> list[Case]:
    found = [case for family in ("conv2d", "pointwise") for case in FAMILIES[family].cases()]
    far = [case for case in found if _VALUE * math.prod(case.inputs["x"]) > least]
    return far[:2] if small else far


def products(mcpu: str, small: bool) -> Iterator[Row]:
    """Products of several rows on two threads, with and without sums on the stack."""
    load_library()  # whose memory is in huge pages
    cores = sorted(os.sched_getaffinity(0))[:_THREADS]
    tvm.get_global_func("runtime.config_threadpool")(-2, len(cores), [str(c) for c in cores])
    target = _target(mcpu, len(cores))
    for case in kernel_cases.cases(target, small=small):
        rows = 1 if small else _ROWS
        if case.kind != "product" or case.rows != rows or "int" in case.dtype:
            continue
        kernel = schedule_kernel(case.func, target).with_attr("global_symbol", "main")
        calls = [_product_call(kernel, target, pipeline) for pipeline in ("default", PIPELINE)]
        sets = _sets(case, _SMALL_SPAN if small else _SPAN)
        errors = [_error(call, sets[0], case.expected) for call in calls]
        taken = _least_wall([partial(_call_all, call, sets) for call in calls])
        each = [seconds / len(sets) for seconds in taken]
        name = f"{case.name}, {case.dtype}, {case.rows} rows"
        yield Row("product", name, _microseconds(VARIANTS[:2], each), max(errors))


def _product_call(kernel: Any, target: tvm.target.Target, pipeline: str) -> Callable[..., Any]:
    mod = tvm.IRModule({"main": kernel})
    built = tvm.tirx.build(mod, target=target, pipeline=pipeline)
    function: Callable[..., Any] = tvm.runtime.Executable(built).jit()["main"]
    return function


def _sets(case: kernel_cases.Case, span: int) -> list[list[Any]]:
    """The arguments, so often that their weights are of so many bytes."""
    tensors = [tvm.runtime.tensor(array) for array in case.arguments]
    sets = [list(tensors) for _ in range(max(1, round(span / case.bytes)))]
    for arguments in sets:
        for i in case.streamed:
            arguments[i] = copy_lasting(case.arguments[i], tvm.cpu())
    return sets


def _error(call: Callable[..., Any], arguments: list[Any], expected: Any) -> float:
    call(*arguments)
    return relative_error(arguments[-1].numpy(), expected)


def _call_all(call: Callable[..., Any], sets: list[list[Any]]) -> None:
    for arguments in sets:
        call(*arguments)


def _least_wall(calls: Sequence[Callable[[], None]]) -> list[float]:
    best = [float("inf")] * len(calls)
    for _ in range(_READINGS):
        for i, call in enumerate(calls):
            start = time.perf_counter()
            call()
            best[i] = min(best[i], time.perf_counter() - start)
    return best


def _target(mcpu: str, cores: int) -> tvm.target.Target:
    return tvm.target.Target({"kind": "llvm", "mcpu": mcpu, "num-cores": cores})


def _microseconds(names: Sequence[str], seconds: Sequence[float]) -> dict[str, float]:
    return {name: 1e6 * one for name, one in zip(names, seconds, strict=True)}


def _times(us: dict[str, float]) -> str:
    return " ".join(f"{name} {one:9.1f}" for name, one in us.items())


def summary(rows: Sequence[Row]) -> list[str]:
    """For each kind how much quicker each variant is than the one before it."""
    lines = []
    for kind in dict.fromkeys(row.kind for row in rows):
        of_kind = [row for row in rows if row.kind == kind]
        names = list(of_kind[0].us)
        for before, after in pairwise(names):
            ratios = [row.us[before] / row.us[after] for row in of_kind]
            mean, least, most = geometric_mean(ratios), min(ratios), max(ratios)
            lines.append(
                f"{kind}: {before} / {after}: {mean:.3f} in the mean, {least:.2f} to {most:.2f}"
            )
    return lines


if __name__ == "__main__":
    main()
