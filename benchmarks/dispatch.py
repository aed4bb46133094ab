"""What one segment costs beside its kernels: our executor, Python threads, and TVM's own VM.

A chain of segments that do nothing, so that all the time is dispatch. Two kinds of nothing:

- ``noop``: the C++ function ``tvm_hetero.identity``, which returns its argument;
- ``vm``: a compiled Relax function that returns its argument, called on TVM's VM. This is how a
  real segment is called; its own cost (TVM's, some 0.5 us) is in the figure.

Each runs on one worker, and in ping-pong between two (every tensor crosses to the other core, the
worst case there is). Beside it, in the same run: Python threads that hand the tensor round through
events, and TVM's VM running the whole chain as one function of packed calls.

``stream`` is our executor with batches in a pipeline: what a segment adds to the time between two
batches, divided by the segments that the busiest worker has of each (so with two workers, which
work at once, half of the chain).

    python benchmarks/dispatch.py [--small] [--output FILE]

The machine may be busy: the figure is the best run, the median stands beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import relax

from tvm_hetero.runtime import native
from tvm_hetero.runtime.stream import steady_seconds

RESULTS = Path(__file__).with_name("results") / "dispatch.json"
SHAPE = (16,)
# The goals of the project, in microseconds a segment.
GOALS = {1: 2.0, 2: 5.0}

Function = Callable[[Any], Any]


@dataclass(frozen=True)
class Row:
    """Microseconds a segment."""

    runner: str
    segment: str
    workers: int
    best: float
    median: float


def chain_plan(segments: int, workers: int) -> dict[str, Any]:
    """A chain that goes round the workers, each pinned to a core of its own."""
    cores = sorted(range(os.cpu_count() or 1))
    return {
        "format": "tvm-hetero/plan/1",
        "devices": [{"name": "cpu", "dl_type": 1, "dl_id": 0}],
        "workers": [
            {"name": f"w{i}", "device": 0, "cores": [cores[i % len(cores)]], "role": "compute"}
            for i in range(workers)
        ],
        "slots": [{"name": f"t{i}", "device": 0} for i in range(segments + 1)],
        "inputs": [{"name": "x", "slot": 0, "shape": list(SHAPE), "dtype": "float32"}],
        "constants": [],
        "outputs": [{"name": "y", "slot": segments}],
        "steps": [
            {
                "kind": "call",
                "name": f"s{i}",
                "function": "nothing",
                "worker": i % workers,
                "ins": [i],
                "outs": [i + 1],
            }
            for i in range(segments)
        ],
    }


def row(runner: str, segment: str, workers: int, segments: int, seconds: Iterable[float]) -> Row:
    each = sorted(1e6 * value / segments for value in seconds)
    return Row(runner, segment, workers, each[0], statistics.median(each))


def on_executor(name: str, functions: list[Function], segments: int, runs: int) -> Row:
    """Our executor; ``functions`` has one function a worker (a VM belongs to one thread)."""
    workers = len(functions)
    executor = native.create(chain_plan(segments, workers))
    executor.set_functions([functions[i % workers] for i in range(segments)])
    executor.set_input("x", tvm.runtime.tensor(np.zeros(SHAPE, "float32")))
    executor.run_repeated(5)
    return row("executor", name, workers, segments, executor.run_repeated(runs))


def in_a_stream(name: str, functions: list[Function], segments: int, runs: int) -> Row:
    """Our executor with batches one behind the other; the chain is cut into one part a worker."""
    workers = len(functions)
    plan = chain_plan(segments, workers)
    busiest = -(-segments // workers)
    for i, step in enumerate(plan["steps"]):
        step["worker"] = i // busiest
    executor = native.create(plan)
    executor.set_functions([functions[i // busiest] for i in range(segments)])
    executor.set_input("x", tvm.runtime.tensor(np.zeros(SHAPE, "float32")))
    executor.run_stream(5)
    seconds = [steady_seconds(executor, 10) for _ in range(max(3, runs // 10))]
    return row("stream", name, workers, busiest, seconds)


def on_python_threads(name: str, functions: list[Function], segments: int, runs: int) -> Row:
    """The same chain on Python threads: an event a segment where it changes threads."""
    workers = len(functions)
    x = tvm.runtime.tensor(np.zeros(SHAPE, "float32"))

    def chain() -> float:
        tensors = [x] + [None] * segments
        filled = [threading.Event() for _ in range(segments + 1)]
        filled[0].set()

        def work(worker: int) -> None:
            function = functions[worker]
            for i in range(worker, segments, workers):
                if workers > 1:
                    filled[i].wait()
                tensors[i + 1] = function(tensors[i])
                if workers > 1:
                    filled[i + 1].set()

        threads = [threading.Thread(target=work, args=(i,)) for i in range(workers)]
        start = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return time.perf_counter() - start

    return row("python threads", name, workers, segments, [chain() for _ in range(runs)])


def relax_chain(calls: int) -> tvm.IRModule:
    """A Relax function of ``calls`` packed calls of the no-op, one after another."""
    builder = relax.BlockBuilder()
    kind = relax.TensorType(SHAPE, "float32")
    x = relax.Var("x", kind)
    with builder.function("main", [x]):
        y: Any = x
        for _ in range(calls):
            packed = relax.ExternFunc("tvm_hetero.identity")
            y = builder.emit(relax.Call(packed, [y], None, ty_args=[kind]))
        builder.emit_func_output(y)
    return builder.get()


def vm_function(module: tvm.IRModule) -> Function:
    executable = tvm.compile(module, tvm.target.Target({"kind": "llvm"}))
    machine = relax.VirtualMachine(executable, tvm.cpu())
    return machine["main"]


def on_tvm_vm(segments: int, runs: int) -> Row:
    """TVM's own VM: the chain as one function, which is how it runs a heterogeneous module."""
    function = vm_function(relax_chain(segments))
    x = tvm.runtime.tensor(np.zeros(SHAPE, "float32"))
    seconds = []
    for _ in range(runs):
        start = time.perf_counter()
        function(x)
        seconds.append(time.perf_counter() - start)
    return row("tvm vm", "noop", 1, segments, seconds)


def measure(segments: int, runs: int) -> list[Row]:
    native.load_library()
    noop = tvm_ffi.get_global_func("tvm_hetero.identity")
    kinds: dict[str, list[Function]] = {
        "noop": [noop, noop],
        "vm": [vm_function(relax_chain(0)) for _ in range(2)],
    }
    rows = []
    for name, functions in kinds.items():
        for workers in (1, 2):
            chosen = functions[:workers]
            rows.append(on_executor(name, chosen, segments, runs))
            rows.append(in_a_stream(name, chosen, segments, runs))
            rows.append(on_python_threads(name, chosen, segments, max(3, runs // 10)))
    rows.append(on_tvm_vm(segments, runs))
    return rows


def report(rows: list[Row], segments: int, runs: int) -> None:
    print(f"dispatch of a chain of {segments} empty segments, microseconds a segment ({runs} runs)")
    print(f"{'runner':<16}{'segment':<9}{'workers':>7}{'best':>9}{'median':>9}   goal")
    for r in rows:
        goal = ""
        if r.runner in ("executor", "stream"):
            goal = f"< {GOALS[r.workers]:g}: " + ("met" if r.best < GOALS[r.workers] else "MISSED")
        print(f"{r.runner:<16}{r.segment:<9}{r.workers:>7}{r.best:>9.2f}{r.median:>9.2f}   {goal}")


def write(rows: list[Row], segments: int, runs: int, output: Path) -> None:
    document = {
        "benchmark": "dispatch",
        "unit": "microseconds a segment",
        "segments": segments,
        "runs": runs,
        "machine": {"cpus": os.cpu_count(), "arch": platform.machine()},
        "tvm": tvm.__version__,
        "goals": {str(workers): goal for workers, goal in GOALS.items()},
        "rows": [asdict(r) for r in rows],
    }
    output.parent.mkdir(parents=True, exist_ok=True)
    temporary = output.with_name(output.name + ".tmp")
    temporary.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    os.replace(temporary, output)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--small", action="store_true", help="a short chain, no file")
    parser.add_argument("--output", type=Path, help=f"JSON file (default: {RESULTS.name})")
    options = parser.parse_args(arguments)
    segments, runs = (20, 10) if options.small else (500, 200)
    rows = measure(segments, runs)
    report(rows, segments, runs)
    output = options.output or (None if options.small else RESULTS)
    if output is not None:
        write(rows, segments, runs, output)


if __name__ == "__main__":
    main()
