"""Whole models beside ONNX Runtime, on one core and on two.

    python -m benchmarks.models                       all nine, writes results/models.json
    python -m benchmarks.models --cores 1 --models resnet50 --kernels 8
    python -m benchmarks.models --small               seconds (the tests run it)
    python -m benchmarks.models --show                writes build/results/performance.md

Each light model of the onnx wheel with seeded random weights, cut off before its softmax (where
random weights saturate). Both sides run on the same number of threads in the same process, in
blocks of a few runs in turns; between the blocks there is a pause, since ONNX Runtime's threads
spin for a while after a run. On one core the time is that of the thread (what else runs on the
machine disturbs little), on more it is the wall clock's, and how many cores other programs kept
busy meanwhile stands beside it; the least and the median of all runs. Building is CPU time of the
process. Thread pools are made once a process: each number of cores has a child process of its own.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import tvm
from numpy.typing import NDArray
from tvm import relax, tirx

from benchmarks.child_rows import keep_to_cores, rows_of_child
from benchmarks.documents import write_document
from benchmarks.execution.argument_types import names_of
from benchmarks.execution.cases import TINY, make_model
from benchmarks.kernel_cases.contest import scheduled
from benchmarks.performance import BUILD_SECONDS, MODEL_MEAN, MODEL_WORST
from benchmarks.results_page import write_pages
from benchmarks.scheduling.runner import geometric_mean
from tvm_hetero.cli.shared.background_load import Neighbours
from tvm_hetero.devices.target import own_mcpu
from tvm_hetero.executor.native import load_library
from tvm_hetero.frontends.onnx import from_onnx, light_models
from tvm_hetero.kernels.cpu.compilation import PIPELINE
from tvm_hetero.kernels.select import rule_of
from tvm_hetero.passes.lower_to_tasks import LowerToTasks

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "models.json"
SMALL = ("squeezenet",)
_CORES = "1,2"
_ROUNDS, _PAUSE = 25, 0.05
_STABLE_ROUNDS, _STABLE = 4, 1.005
_BLOCK_SECONDS, _LEAST_RUNS, _MOST_RUNS = 0.1, 2, 30


@dataclass(frozen=True)
class Row:
    """One model on so many cores.

    Seconds; ``error`` is over the deviation of the logits, ``others`` the cores that other
    programs kept busy.
    """

    model: str
    cores: int
    tasks: int
    kernels: int
    import_s: float
    lower_s: float
    schedule_s: float
    compile_s: float
    ours_s: float
    ours_median_s: float
    ort_s: float
    ort_median_s: float
    error: float
    others: float
    slowest: list[tuple[str, str, int, float]] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        """Our time over ONNX Runtime's, the least of each."""
        return self.ours_s / self.ort_s

    @property
    def build_s(self) -> float:
        """From the ONNX model to machine code."""
        return self.import_s + self.lower_s + self.schedule_s + self.compile_s


def main(arguments: Sequence[str] | None = None) -> list[Row]:
    """Measure in child processes, print and write; the rows."""
    args = _arguments(arguments)
    if args.show:
        write_pages()
        return []
    if args.child:
        _measure_all(args)
        return []
    rows: list[Row] = []
    print(_HEAD)
    for cores in args.cores.split(","):
        for row in _in_child(args, int(cores)):
            rows.append(row)
            print(_line(row), flush=True)
        print(summary([row for row in rows if row.cores == int(cores)]), flush=True)
    if not args.small and (args.models, args.cores) == (tuple(light_models()), _CORES):
        write_document(
            RESULTS, "python -m benchmarks.models", map(asdict, rows), target=args.target
        )
        print(f"written to {RESULTS}")
    return rows


def model_parser(text: str | None, known: Collection[str] = ()) -> argparse.ArgumentParser:
    """Arguments of a benchmark of models: which (the light ones, or `known`), and if only a try."""
    parser = argparse.ArgumentParser(description=(text or "").split("\n\n")[0])
    names = names_of(known or light_models())
    parser.add_argument("--models", type=names, help="names with commas between (default: all)")
    parser.add_argument("--small", action="store_true", help="one model, few runs, no file")
    return parser


def parse_with_folder(
    parser: argparse.ArgumentParser, arguments: Sequence[str] | None
) -> argparse.Namespace:
    """Arguments of a benchmark that makes its models first: with ``--folder`` and ``--make``."""
    parser.add_argument("--folder", type=Path, help="where networks are kept (default: nowhere)")
    parser.add_argument("--make", action="store_true", help="only make them; with --folder")
    args = parser.parse_args(arguments)
    if args.make and args.folder is None:
        parser.error("--make is for --folder: else what is made is thrown away")
    return args


def models_asked(args: argparse.Namespace) -> tuple[str, ...]:
    """The models that the command line names; all, or of a try the smallest."""
    return args.models or (SMALL if args.small else tuple(light_models()))


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = model_parser(__doc__, (*light_models(), TINY))
    parser.add_argument("--cores", default=_CORES, help="numbers with commas between")
    parser.add_argument("--kernels", type=int, default=0, help="show so many of our slowest")
    parser.add_argument("--target", default=own_mcpu(), help="LLVM's -mcpu")
    parser.add_argument("--show", action="store_true", help="write build/results/*.md")
    parser.add_argument("--child", type=int, default=0, help=argparse.SUPPRESS)
    args = parser.parse_args(arguments)
    # A light model takes seconds to compile, once for each number of cores.
    args.models = args.models or ((TINY,) if args.small else tuple(light_models()))
    return args


def _in_child(args: argparse.Namespace, cores: int) -> Iterator[Row]:
    """The rows that a process of its own prints as lines of JSON."""
    options = [str(cores), "--models", ",".join(args.models), "--target", args.target]
    options += ["--kernels", str(args.kernels), *(["--small"] if args.small else [])]
    for row in rows_of_child("benchmarks.models", options):
        yield Row(**row)


def _measure_all(args: argparse.Namespace) -> None:
    """In the child: before any kernel, this process gets its cores and TVM's threads theirs."""
    cores = args.child
    keep_to_cores(cores)
    target = tvm.target.Target({"kind": "llvm", "mcpu": args.target, "num-cores": cores})
    for name in args.models:
        row = measure(name, target, cores, 1 if args.small else _ROUNDS, args.kernels)
        print(json.dumps(asdict(row)), flush=True)


def measure(name: str, target: tvm.target.Target, cores: int, rounds: int, shown: int) -> Row:
    """Build one model, compare it with ONNX Runtime and time both."""
    load_library()  # kernels' workspaces are in huge pages, as in the executor
    proto = make_model(name)
    imported, import_s = _timed(lambda: from_onnx(proto))
    lowered, lower_s = _timed(lambda: LowerToTasks([target])(imported))
    module, schedule_s = _timed(lambda: scheduled(lowered, target))
    executable, compile_s = _timed(lambda: tvm.compile(module, target, tir_pipeline=PIPELINE))
    vm = relax.VirtualMachine(executable, tvm.cpu())
    session = _session(proto, cores)
    (feed,) = session.get_inputs()
    x = np.random.default_rng(0).random(feed.shape, dtype=np.float32)
    tensor, function = tvm.runtime.tensor(x), vm["main"]
    error = _difference(function(tensor).numpy(), session.run(None, {feed.name: x})[0])
    clock = time.thread_time if cores == 1 else time.perf_counter
    neighbours = Neighbours()
    ours, ort = in_turns(
        [lambda: function(tensor), lambda: session.run(None, {feed.name: x})], clock, rounds
    )
    return Row(
        name, cores, _tasks(lowered), len(_kernels(lowered)),
        import_s, lower_s, schedule_s, compile_s,
        min(ours), statistics.median(ours), min(ort), statistics.median(ort),
        error, neighbours.busy_cores(), _slowest(vm, tensor, module, clock, shown) if shown else [],
    )  # fmt: skip


def _session(proto: onnx.ModelProto, cores: int) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = cores
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(proto.SerializeToString(), options)


def _kernels(mod: tvm.IRModule) -> dict[str, tirx.PrimFunc]:
    found = [(gv.name_hint, f) for gv, f in mod.functions_items()]
    return {name: f for name, f in found if isinstance(f, tirx.PrimFunc)}


def _tasks(mod: tvm.IRModule) -> int:
    values = [b.value for block in mod["main"].body.blocks for b in block.bindings]
    calls = [value for value in values if isinstance(value, relax.Call)]
    return sum(getattr(call.op, "name", "") == "relax.call_tir" for call in calls)


def _timed(function: Callable[[], Any]) -> tuple[Any, float]:
    start = time.process_time()
    return function(), time.process_time() - start


def _difference(actual: NDArray[Any], expected: NDArray[Any]) -> float:
    """The largest difference over the expected deviation; infinite for NaN."""
    error = np.abs(actual.reshape(expected.shape) - expected).max() / expected.std()
    return float(error) if np.isfinite(error) else math.inf


def in_turns(
    functions: Sequence[Callable[[], Any]], clock: Callable[[], float], rounds: int
) -> list[list[float]]:
    """The times of all runs of each, in blocks that take turns, until the least are stable."""
    times: list[list[float]] = [[] for _ in functions]
    best: list[list[float]] = []  # after each round
    while len(best) < rounds and not _stable(best):
        for function, taken in zip(functions, times, strict=True):
            time.sleep(_PAUSE)
            taken += _block(function, clock)
        best.append([min(taken) for taken in times])
    return times


def _block(function: Callable[[], Any], clock: Callable[[], float]) -> list[float]:
    function()  # the caches are the other side's, the threads asleep
    start = time.perf_counter()
    function()
    runs = _BLOCK_SECONDS / (time.perf_counter() - start)
    times = []
    for _ in range(int(min(max(runs, _LEAST_RUNS), _MOST_RUNS))):
        start = clock()
        function()
        times.append(clock() - start)
    return times


def _stable(best: list[list[float]]) -> bool:
    """Whether the last rounds have brought hardly anything."""
    if len(best) <= _STABLE_ROUNDS:
        return False
    before, now = best[-1 - _STABLE_ROUNDS], best[-1]
    return all(old <= _STABLE * new for old, new in zip(before, now, strict=True))


def _slowest(
    vm: relax.VirtualMachine,
    tensor: Any,
    mod: tvm.IRModule,
    clock: Callable[[], float],
    shown: int,
) -> list[tuple[str, str, int, float]]:
    """Name, rule, calls and seconds of the kernels that take longest in one run (of five)."""
    started: list[float] = []
    total: dict[str, list[float]] = {}

    def instrument(_func: Any, name: str, before: bool, _ret: Any, *_args: Any) -> int:
        if before:
            started.append(clock())
        else:
            total.setdefault(name, []).append(clock() - started.pop())
        return 0

    vm.set_instrument(instrument)
    vm["main"](tensor)
    total.clear()
    runs = 5
    for _ in range(runs):
        vm["main"](tensor)
    rules = {name: rule_of(f) for name, f in _kernels(mod).items()}
    found = [
        (name, rules[name], len(times) // runs, sum(times) / runs)
        for name, times in total.items()
        if name in rules
    ]
    return sorted(found, key=lambda kernel: (-kernel[3], kernel[0]))[:shown]


_HEAD = (
    f"{'model':<14}{'cores':>6}{'kernels':>8}{'ours ms':>9}{'median':>9}{'ORT ms':>9}{'median':>9}"
    f"{'ratio':>7}{'others':>7}{'error':>9}"
    f"{'import':>8}{'lower':>8}{'sched.':>8}{'compile':>8}{'build s':>8}"
)


def _line(row: Row) -> str:
    times = (row.ours_s, row.ours_median_s, row.ort_s, row.ort_median_s)
    steps = (row.import_s, row.lower_s, row.schedule_s, row.compile_s, row.build_s)
    lines = [
        f"{row.model:<14}{row.cores:>6}{row.kernels:>8}"
        + "".join(f"{1e3 * seconds:>9.2f}" for seconds in times)
        + f"{row.ratio:>7.2f}{row.others:>7.1f}{row.error:>9.0e}"
        + "".join(f"{seconds:>8.1f}" for seconds in steps)
    ]
    lines += [f"{1e3 * s:>12.3f} ms{n:>4} x {name} ({rule})" for name, rule, n, s in row.slowest]
    return "\n".join(lines)


def summary(rows: Sequence[Row]) -> str:
    """Mean and worst beside the goals, for one number of cores."""
    ratios = [row.ratio for row in rows]
    mean = geometric_mean(ratios)
    worst, slowest = max(rows, key=lambda r: r.ratio), max(rows, key=lambda r: r.build_s)
    return (
        f"our time / ONNX Runtime's, {rows[0].cores} core{'s' * (rows[0].cores > 1)}: geometric "
        f"mean {mean:.2f} (goal {MODEL_MEAN}), worst {worst.ratio:.2f} ({worst.model}; goal "
        f"{MODEL_WORST}); longest build {slowest.build_s:.1f} s ({slowest.model}; goal "
        f"{BUILD_SECONDS:g})"
    )


if __name__ == "__main__":
    main()
