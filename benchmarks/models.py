"""Our kernels beside ONNX Runtime, whole networks on one core.

    python -m benchmarks.models [--small] [--target MCPU] [model ...]

For each light model of the onnx wheel, with seeded random weights: both are timed in turns in
the same process on one thread, and the minimum counts (thread CPU time, so that what else runs
on the machine disturbs least). Then our slowest kernels. The outputs are compared before the
softmax. Results are written to benchmarks/results/models.json (not with --small,
so that a quick run does not replace the whole table).
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import tvm
from tvm import relax, tirx
from tvm.relax.frontend.onnx import from_onnx
from tvm.target import codegen

from tvm_hetero.documents import write_atomic
from tvm_hetero.frontends.onnx import light_models, load_model, randomize_weights, simplify
from tvm_hetero.kernels import schedule_kernel
from tvm_hetero.passes.lower_to_tasks import LowerToTasks

RESULTS = Path(__file__).parent / "results" / "models.json"
SMALL = ("shufflenet", "squeezenet")
SHOWN_KERNELS = 5


@dataclass
class Result:
    """One model. Times are seconds; ``error`` is the largest difference over the logits' spread."""

    model: str
    tasks: int
    kernels: int
    lower: float
    schedule: float
    compile: float
    ours: float
    onnxruntime: float
    ratio: float
    error: float
    slowest: list[tuple[str, int, float]]


def main(arguments: Sequence[str] | None = None) -> list[Result]:
    """Measure, print and write the table; returns its rows."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("models", nargs="*", help="names; default: all nine")
    parser.add_argument("--small", action="store_true", help="two models, few runs, no file")
    parser.add_argument("--target", default=codegen.llvm_get_system_cpu(), help="LLVM's -mcpu")
    args = parser.parse_args(arguments)
    names = args.models or (SMALL if args.small else tuple(light_models()))
    target = tvm.target.Target({"kind": "llvm", "mcpu": args.target, "num-cores": 1})
    print(f"target {args.target}, one thread, minimum of repeats, ms")
    print(f"{'model':<14}{'tasks':>6}{'ours':>9}{'ort':>9}{'ratio':>7}{'error':>9}{'build s':>9}")
    results = []
    for name in names:
        result = measure(name, target, repeats=5 if args.small else 15)
        results.append(result)
        print(_row(result), flush=True)
    if not args.small:
        _write(results, args.target)
    return results


def measure(name: str, target: tvm.target.Target, repeats: int) -> Result:
    """Build one model, compare and time it."""
    proto = logits_of(simplify(randomize_weights(load_model(light_models()[name]), 0)))
    session = _session(proto)
    (feed,) = session.get_inputs()
    x = np.random.default_rng(0).random(feed.shape, dtype=np.float32)
    lowered, lower = _timed(lambda: LowerToTasks([target])(from_onnx(proto)))
    mod, schedule = _timed(lambda: _scheduled(lowered, target))
    executable, compile_ = _timed(lambda: tvm.compile(mod, target))
    vm = relax.VirtualMachine(executable, tvm.cpu())
    tensor, run = tvm.runtime.tensor(x), vm["main"]
    expected = session.run(None, {feed.name: x})[0]
    error = np.abs(run(tensor).numpy().reshape(expected.shape) - expected).max() / expected.std()
    ours, theirs = _in_turns(
        [lambda: run(tensor), lambda: session.run(None, {feed.name: x})], repeats
    )
    count = len([b for b in lowered["main"].body.blocks[0].bindings if _is_task(b)])
    kernels = sum(isinstance(f, tirx.PrimFunc) for f in lowered.functions.values())
    return Result(
        name, count, kernels, lower, schedule, compile_, ours, theirs, ours / theirs,
        float(error), _slowest(vm, tensor),
    )  # fmt: skip


def logits_of(proto: onnx.ModelProto) -> onnx.ModelProto:
    """The model cut off before its softmax, where random weights saturate."""
    graph = proto.graph
    softmax = [i for i, node in enumerate(graph.node) if node.op_type == "Softmax"]
    if not softmax:
        return proto
    output = graph.node[softmax[-1]].input[0]
    del graph.node[softmax[-1] :]
    del graph.output[:]
    graph.output.append(onnx.helper.make_tensor_value_info(output, onnx.TensorProto.FLOAT, None))
    return proto


def _session(proto: onnx.ModelProto) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(proto.SerializeToString(), options)


def _scheduled(mod: tvm.IRModule, target: tvm.target.Target) -> tvm.IRModule:
    functions = {
        gv: schedule_kernel(f, target) if isinstance(f, tirx.PrimFunc) else f
        for gv, f in mod.functions_items()
    }
    return tvm.IRModule(functions, attrs=mod.attrs)


def _is_task(binding: Any) -> bool:
    value = binding.value
    return isinstance(value, relax.Call) and value.op.name == "relax.call_tir"


def _timed(function: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    return function(), time.perf_counter() - start


def _in_turns(functions: list[Callable[[], Any]], repeats: int) -> list[float]:
    """The least thread CPU time of each, taken alternately."""
    best = [float("inf")] * len(functions)
    for _ in range(repeats):
        for i, function in enumerate(functions):
            start = time.thread_time()
            function()
            best[i] = min(best[i], time.thread_time() - start)
    return best


def _slowest(vm: relax.VirtualMachine, tensor: Any) -> list[tuple[str, int, float]]:
    """Name, calls and seconds of the kernels that take longest in one run."""
    started: list[float] = []
    total: dict[str, tuple[int, float]] = {}

    def instrument(_func: Any, name: str, before: bool, _ret: Any, *_args: Any) -> int:
        if before:
            started.append(time.thread_time())
        else:
            calls, seconds = total.get(name, (0, 0.0))
            total[name] = (calls + 1, seconds + time.thread_time() - started.pop())
        return 0

    vm.set_instrument(instrument)
    vm["main"](tensor)
    total.clear()
    vm["main"](tensor)
    ranked = sorted(total.items(), key=lambda item: (-item[1][1], item[0]))
    return [(name, calls, seconds) for name, (calls, seconds) in ranked[:SHOWN_KERNELS]]


def _row(result: Result) -> str:
    build = result.lower + result.schedule + result.compile
    lines = [
        f"{result.model:<14}{result.tasks:>6}{result.ours * 1e3:>9.2f}"
        f"{result.onnxruntime * 1e3:>9.2f}{result.ratio:>7.2f}{result.error:>9.0e}{build:>9.1f}"
    ]
    lines += [f"    {s * 1e3:>8.2f} {calls:>3} x {name}" for name, calls, s in result.slowest]
    return "\n".join(lines)


def _write(results: list[Result], mcpu: str) -> None:
    document = {
        "target": mcpu,
        "tvm": tvm.__version__,
        "onnxruntime": onnxruntime.__version__,
        "results": [asdict(result) for result in results],
    }
    write_atomic(RESULTS, json.dumps(document, indent=1) + "\n")
    print(f"written to {RESULTS}")



if __name__ == "__main__":
    main()
