"""Convolutions of 3x3 windows by Winograd's tiles beside plain sums and ONNX Runtime.

    python -m benchmarks.tiles            writes results/tiles.json
    python -m benchmarks.tiles --small    seconds (the tests run it)

Every distinct convolution of the light models that can be computed by tiles, whether the rule would
take them or not, of one image, on one thread: thread CPU time, the least of readings in turns.

    share      tiles / plain, as the rule estimates it (it takes tiles below 1) and as measured
    errors     against ONNX Runtime: the largest difference over the results' standard deviation
    compiled   seconds for the kernel's machine code; `all passes`: by tiles, without leaving any of
               TVM's passes out (`tvm_hetero/kernels/cpu/compilation.py`)
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from statistics import median

import tvm
from tvm import tirx

from benchmarks.documents import write_document
from benchmarks.execution.arguments import RESULTS
from benchmarks.kernel_cases import FAMILIES
from benchmarks.kernel_cases.case import Case
from benchmarks.kernel_cases.contest import Session, caller, in_turns, machine, relative_error
from benchmarks.scheduling.runner import geometric_mean
from tvm_hetero.devices.target import own_mcpu
from tvm_hetero.frontends.onnx import from_onnx
from tvm_hetero.kernels import schedule_kernel
from tvm_hetero.kernels.convolution.winograd.kernel import make_winograd, share_of_plain
from tvm_hetero.kernels.cpu.compilation import WRITTEN_OUT, build
from tvm_hetero.kernels.cpu.vector_unit import vector_unit
from tvm_hetero.kernels.select import SCHEDULED
from tvm_hetero.kernels.tir.implementation_attr import DIRECT, with_implementation
from tvm_hetero.passes.lower_to_tasks import LowerToTasks

_SECONDS, _SMALL_SECONDS = 0.1, 0.002
_SMALL = ("64x13x13 to 256 3x3", "256x12x12 to 384 3x3")
_SIDES = ("plain", "tiles", "ort")


@dataclass(frozen=True)
class Row:
    """One convolution; `us`, `errors` and `compiled` (s) by side."""

    case: str
    where: str
    estimate: float
    us: dict[str, float]
    errors: dict[str, float]
    compiled: dict[str, float]

    @property
    def measured(self) -> float:
        """The time by tiles over that of plain sums."""
        return self.us["tiles"] / self.us["plain"]


def main(arguments: Sequence[str] | None = None) -> list[Row]:
    """Measure, print and write; returns the rows."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--small", action="store_true", help="two cases, no file")
    parser.add_argument("--target", default=own_mcpu(), help="LLVM's -mcpu")
    args = parser.parse_args(arguments)
    rows = []
    for row in measure(args.target, args.small):
        print(_line(row), flush=True)
        rows.append(row)
    print("\n".join(summary(rows)))
    if not args.small:
        path = RESULTS / "tiles.json"
        write_document(path, "python -m benchmarks.tiles", map(asdict, rows), target=args.target)
        print(f"written to {path}")
    return rows


def measure(mcpu: str, small: bool) -> Iterator[Row]:
    """The rows, case by case."""
    target = tvm.target.Target({"kind": "llvm", "mcpu": mcpu, "num-cores": 1})
    for case in FAMILIES["conv2d"].cases():
        if small and case.name not in _SMALL:
            continue
        mod = LowerToTasks([target])(from_onnx(case.model()))
        [(name, func)] = [(g, f) for g, f in mod.functions_items() if isinstance(f, tirx.PrimFunc)]
        try:
            share = share_of_plain(func, vector_unit(target))
        except ValueError:
            continue  # it cannot be computed by tiles
        ways = {
            "plain": schedule_kernel(with_implementation(func, DIRECT), target),
            "tiles": make_winograd(func, vector_unit(target), 1).with_attr(SCHEDULED, True),
        }
        yield _row(case, mod, name, ways, share, target, _SMALL_SECONDS if small else _SECONDS)


def _row(
    case: Case, mod: tvm.IRModule, name: tvm.ir.GlobalVar, ways: dict[str, tirx.PrimFunc],
    share: float, target: tvm.target.Target, seconds: float,
) -> Row:  # fmt: skip
    arrays = case.arrays()
    session = Session(case.model(), arrays)
    session.run()
    tensors = [tvm.runtime.tensor(arrays[each]) for each in case.inputs]
    modules = [_with(mod, name, func) for func in ways.values()]
    built = machine(modules, target)
    calls = [caller(built[f"case{i}"], tensors) for i in range(len(modules))]
    errors = [relative_error(call().numpy(), session.result()) for call in calls]
    taken = in_turns([*calls, session.run], seconds)
    compiled = {way: _compiled(func, target) for way, func in ways.items()}
    compiled["all passes"] = _compiled(ways["tiles"].without_attr(WRITTEN_OUT), target)
    us = {side: 1e6 * one for side, one in zip(_SIDES, taken, strict=True)}
    return Row(case.name, case.where, share, us, dict(zip(ways, errors, strict=True)), compiled)


def _with(mod: tvm.IRModule, name: tvm.ir.GlobalVar, func: tirx.PrimFunc) -> tvm.IRModule:
    """The module with another function of that name."""
    functions = {g: func if g.same_as(name) else f for g, f in mod.functions_items()}
    return tvm.IRModule(functions, attrs=mod.attrs)


def _compiled(func: tirx.PrimFunc, target: tvm.target.Target) -> float:
    """Seconds to compile a kernel."""
    start = time.perf_counter()
    build(tvm.IRModule({"main": func.with_attr("global_symbol", "main")}), target)
    return time.perf_counter() - start


def _line(row: Row) -> str:
    us = " ".join(f"{side} {one:9.1f}" for side, one in row.us.items())
    errors = " ".join(f"{one:.0e}" for one in row.errors.values())
    seconds = " ".join(f"{one:.2f}" for one in row.compiled.values())
    shares = f"share {row.estimate:.2f} estimated {row.measured:.2f} measured"
    return f"{row.case:<28}us {us}  {shares}  errors {errors}  compiled {seconds}"


def summary(rows: Sequence[Row]) -> list[str]:
    """What the tiles gain where the rule takes them, and how good its estimate is."""
    taken = [row for row in rows if row.estimate <= 1]
    gains = [1 / row.measured for row in taken]
    off = [row.measured / row.estimate for row in rows]
    wrong = [row.case for row in rows if (row.estimate <= 1) != (row.measured <= 1)]
    errors = {way: median(row.errors[way] for row in rows) for way in ("plain", "tiles")}
    compiled = {way: median(row.compiled[way] for row in rows) for way in rows[0].compiled}
    lines = [
        f"the rule takes tiles for {len(taken)} of {len(rows)}",
        f"measured / estimated share: {geometric_mean(off):.2f} in the mean, "
        f"{min(off):.2f} to {max(off):.2f}; on the wrong side of 1: {', '.join(wrong) or 'none'}",
        "median error: " + ", ".join(f"{way} {one:.1e}" for way, one in errors.items()),
        "median s to compile: " + ", ".join(f"{way} {one:.2f}" for way, one in compiled.items()),
    ]
    if gains:
        mean = geometric_mean(gains)
        lines.insert(1, f"plain / tiles there: {mean:.2f} in the mean, {min(gains):.2f} at least, "
                        f"{max(gains):.2f} at most")  # fmt: skip
    return lines


if __name__ == "__main__":
    main()
