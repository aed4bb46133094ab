"""What the executor's parts cost, each as the difference of two chains that differ in it alone.

    kernel call            (a step of n kernels - a step of one) / (n - 1)
    start of a step        (n steps of one kernel each - one step of n kernels) / (n - 1)
    edge across devices    (n steps in ping-pong between two workers - n steps on one) / (n - 1)
    submit to result       of a chain of one step, request after request
    wake-up from idleness  the same after a pause in which all threads have gone to sleep, less it

What is subtracted is the least of all runs of it, which noise moves least: the quantiles are those
of the minuend, and rather too large than too small. A kernel call holds the kernel itself, which
copies 16 numbers. On an edge the reader spins; after an idle time (two milliseconds) it sleeps, and
has to be woken.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import tvm
from tvm import relax

from benchmarks.execution.cases import one_device
from benchmarks.execution.empty import SHAPE, Figure, chain, figure, tensor
from tvm_hetero.compiler.build import build
from tvm_hetero.executor.executor import Executor
from tvm_hetero.pipeline.partition import partition

# Longer than workers and callers spin, seconds.
_IDLE = 0.01


@dataclass(frozen=True)
class _Chains:
    """Seconds of all runs: one kernel, n kernels in one step, n steps, n steps in ping-pong."""

    one: list[float]
    kernels: list[float]
    steps: list[float]
    ping_pong: list[float]


def parts(count: int, runs: int) -> list[Figure]:
    """The figures of every part, from chains of `count` and from `runs` runs of each."""
    found = _chains(count, runs)

    def each(more: list[float], less: list[float]) -> list[float]:
        return [(seconds - min(less)) / (count - 1) for seconds in more]

    return [
        figure("kernel call", "executor", 1, each(found.kernels, found.one)),
        figure("start of a step", "executor", 1, each(found.steps, found.kernels)),
        figure("edge across devices", "executor", 2, each(found.ping_pong, found.steps)),
        *_requests(count, runs),
    ]


def _chains(count: int, runs: int) -> _Chains:
    """All chains in turns, so that the machine's drift meets them alike."""
    executors = {
        "one": chain([0], "kernels"),
        "kernels": chain([0], "kernels", calls=count),
        "steps": chain([0] * count, "kernels"),
        "ping_pong": chain([i % 2 for i in range(count)], "kernels"),
    }
    seconds: dict[str, list[float]] = {name: [] for name in executors}
    turns = 5
    for _ in range(turns):
        for name, executor in executors.items():
            executor.run_repeated(3)
            seconds[name] += executor.run_repeated(max(1, runs // turns))
    return _Chains(**seconds)


def _requests(count: int, runs: int) -> list[Figure]:
    """Submitting and waking, through C++ alone and through `Executor`."""
    native, x = chain([0], "kernels"), tensor()

    def through_cpp() -> None:
        request = native.submit([x], 0.0, -1.0, False)
        native.wait(request, -1.0)
        native.take(request)

    found = _request(through_cpp, "executor (C++ functions)", count, runs)
    module = _relu()
    with Executor(build(partition(module, one_device(1)).module)) as executor:
        inputs = executor.random_inputs(0)
        found += _request(lambda: executor.submit(inputs).result(), "Executor.submit", count, runs)
        found += _request(lambda: executor.run(inputs), "Executor.run", count, runs)
    return found


def _request(request: Callable[[], object], runner: str, count: int, runs: int) -> list[Figure]:
    for _ in range(10):
        request()
    busy = [_timed(request) for _ in range(count)]
    idle = []
    for _ in range(runs):
        time.sleep(_IDLE)
        idle.append(_timed(request) - min(busy))
    return [
        figure("submit to result, 1 kernel", runner, 1, busy),
        figure("wake-up from idleness", runner, 1, idle),
    ]


def _timed(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def _relu() -> tvm.IRModule:
    """A model of one tiny kernel."""
    x = relax.Var("x", relax.TensorType(SHAPE, "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            y = builder.emit_output(relax.op.nn.relu(x))
        builder.emit_func_output(y)
    return builder.get()
