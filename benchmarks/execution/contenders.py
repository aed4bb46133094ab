"""Who is measured: a built plan's executors and ONNX Runtime, on the same inputs, in turns.

Everything that is compared is measured in one process and in turns, with a pause before each turn:
threads of ONNX Runtime spin for a while after a run, our workers for two milliseconds. The
machine's drift meets all alike then. What other programs did meanwhile stands in the results.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import onnx

from benchmarks.execution.cases import SEED
from tvm_hetero.artifact.executable import PARTITION, SINGLE, Executable
from tvm_hetero.cli.shared.background_load import Neighbours
from tvm_hetero.cli.shared.measure import Arrays, OnnxRuntime, largest_difference
from tvm_hetero.compiler.build import build
from tvm_hetero.executor.executor import Executor
from tvm_hetero.executor.interleave import Runner
from tvm_hetero.frontends.onnx import from_onnx
from tvm_hetero.pipeline.options import PartitionOptions
from tvm_hetero.pipeline.partition import Partition, partition
from tvm_hetero.platform import Platform
from tvm_hetero.problem import Kind, Objective

# Takes about how many seconds to measure, returns images per second.
Rate = Callable[[float], float]
PAUSE = 0.05
# A stream counts this many batches at least: with fewer, its ends would weigh too much.
LEAST_BATCHES = 6


@dataclass(frozen=True)
class Built:
    """A model as a plan: what was decided, and what it was compiled to."""

    placed: Partition
    executable: Executable
    build_s: float


def build_plan(
    model: onnx.ModelProto,
    platform: Platform,
    objective: Objective,
    time_limit: float,
    *,
    small: bool = False,
    adaptable: bool = False,
) -> Built:
    """Import, partition with measured costs, and compile, together with the best single device.

    A `small` run has costs of kernels that were measured alone: in a fraction of the time.
    """
    start = time.perf_counter()
    module = from_onnx(model)
    options = PartitionOptions(
        objective=objective,
        time_limit=time_limit,
        seed=SEED,
        cost_model="profiled-alone" if small else "profiled",
    )
    placed = partition(module, platform, options)
    executable = build(placed.module, adaptable=adaptable)
    return Built(placed, executable, time.perf_counter() - start)


def executors_of(built: Built) -> dict[str, Executor]:
    """An executor of every variant; the plan's twice where it is that of a single device."""
    found = {name: Executor(built.executable, name) for name in (PARTITION, SINGLE)
             if name in built.executable.variants}  # fmt: skip
    found.setdefault(SINGLE, found[PARTITION])
    return found


def elements_of(arrays: Arrays, batch: int) -> list[Arrays]:
    """Inputs of a whole batch as those of its elements."""
    parts = {name: np.split(array, batch) for name, array in arrays.items()}
    return [{name: part[e] for name, part in parts.items()} for e in range(batch)]


def difference(executor: Executor, inputs: Arrays, batch: int, peer: OnnxRuntime) -> float:
    """The largest deviation of any element from ONNX Runtime, relative to its largest value."""
    outputs = [np.split(np.asarray(out.numpy()), batch) for out in executor.run(inputs)]
    worst = 0.0
    for e, element in enumerate(elements_of(inputs, batch)):
        expected = peer.outputs(element)
        mine = [out[e].reshape(want.shape) for out, want in zip(outputs, expected, strict=True)]
        worst = max(worst, largest_difference(mine, expected).relative)
    return worst


def batch_runner(executor: Executor, inputs: Arrays, kind: Kind, seconds: float) -> Runner:
    """Seconds of a batch: latency of run after run, or of the steady state of streams.

    A stream counts as many batches as take about `seconds`.
    """
    if kind != "throughput":
        return lambda count: executor.benchmark(inputs, repeat=count, warmup=0)
    batches = _batches(executor.throughput(inputs, LEAST_BATCHES), seconds)
    return lambda count: [executor.throughput(inputs, batches) for _ in range(count)]


def peer_runner(peer: OnnxRuntime, elements: list[Arrays]) -> Runner:
    """Seconds of a batch on ONNX Runtime, which takes its elements one after another."""
    runners = [peer.runner(element) for element in elements]
    return lambda count: [sum(run(1)[0] for run in runners) for _ in range(count)]


def stream_rate(executor: Executor, inputs: Arrays, batch: int) -> Rate:
    """Images per second of a stream of batches in its steady state."""
    period = executor.throughput(inputs, LEAST_BATCHES)

    def rate(seconds: float) -> float:
        return batch / executor.throughput(inputs, _batches(period, seconds))

    return rate


def _batches(period: float, seconds: float) -> int:
    return max(LEAST_BATCHES, round(seconds / period))


def peer_rate(peer: OnnxRuntime, inputs: Arrays, images: int = 1) -> Rate:
    """Images per second of runs one after another, each of so many images."""
    run = peer.runner(inputs)
    run(2)

    def rate(seconds: float) -> float:
        runs, start = 0, time.perf_counter()
        while (elapsed := time.perf_counter() - start) < seconds or runs < LEAST_BATCHES:
            run(1)
            runs += 1
        return images * runs / elapsed

    return rate


def rates_in_turns(
    contenders: Mapping[str, Rate], rounds: int, seconds: float, apart: frozenset[str]
) -> tuple[dict[str, list[float]], float]:
    """What each reaches in every round, and how many cores others kept busy meanwhile.

    Those in `apart` are processes of their own, so the kernel's books cannot tell them from others.
    """
    rates: dict[str, list[float]] = {name: [] for name in contenders}
    busy: list[float] = []
    for _ in range(rounds):
        for name, rate in contenders.items():
            time.sleep(PAUSE)
            neighbours = Neighbours()
            rates[name].append(rate(seconds))
            busy += [] if name in apart else [neighbours.busy_cores()]
    return rates, sum(busy) / len(busy)
