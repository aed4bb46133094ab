"""What it costs the executor to go on with a chain of kernels on another device.

Two plans run the same chain of kernels, each of which adds 1 to all numbers of a tensor:

    apart      each kernel is a step; the steps are on two workers, in turns
    together   all are one step on the first worker, in its arena

``apart - together``, divided by the number of times that the worker changes, is what it costs to
change it. With next to no data that is the time from the end of a segment here to the start of the
next one there: ending a step, telling the other worker, its noticing (it spins), starting a step
(`python -m benchmarks.dispatch` prints the parts). What it grows by with larger tensors is what
each byte costs because another core has written it, because another core has read what was there
before, and because it has a place of its own instead of one in the arena, which is in the cache.
Where the two places have memories of their own, copies are in it, by copying workers.

Where batches follow each other, what is handed over waits, and much of it has left the caches when
it is read (`tvm_hetero.solvers.throughput.fewer_transfers`). What a byte costs then is measured
with large tensors, of which none is left in a cache when its turn comes again, in

    waiting    as apart, but each kernel reads what was written `WAIT` kernels before, so both
               workers go on at once, as they do where batches follow each other

It is what a kernel of this one takes by the byte less what one of ``together`` takes. (In ``apart``
a tensor is read as soon as it is written: 8 MiB are then still in the last-level cache, and a byte
of them takes less.)

Both are timed by the executor, many times, from the start of the first step to the end of the last
one: how long the caller takes to start a run is no part of it, and depends on which core the caller
happens to be on. What else runs only adds, so the lower quartile counts. Wake-ups of workers that
have waited for so long that they sleep (2 ms) are no part of it either. A chain of large tensors
takes longer than a busy machine leaves it alone, so there each step is a sample.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvm_hetero.plan.model import (
    ArgKind,
    ArgPlan,
    CallPlan,
    DevicePlan,
    InputPlan,
    OutputPlan,
    Plan,
    Role,
    SlotPlan,
    StepKind,
    StepPlan,
    TensorPlan,
    WorkerPlan,
)

# Kernels of a chain.
CHAIN = 17
SAMPLES = 100
# Bytes of a tensor: the least that there is in a plan, and activations of some networks.
LEAST = 64
SIZES = (64 * 1024, 256 * 1024, 1024 * 1024)
# Large ones take longer, and need no more than fewer samples: a span has 16 hand-overs in it.
FEWER = {SIZES[1]: 50, SIZES[2]: 25}
# All 17 of a chain are 136 MiB: more than the cache that some cores of a die share.
COLD_SIZE = 8 * 1024 * 1024
COLD_SAMPLES = 5
# An odd number: two kernels so far apart are on different workers.
WAIT = 9
# Runs for each sample, of which the last one counts.
_RUNS = 3


@dataclass(frozen=True)
class CorePlace:
    """A core, and the memory that is worked in from there, as DLPack numbers it."""

    core: int
    memory: tuple[int, int] = (1, 0)


def measure_handover(src: CorePlace, dst: CorePlace) -> tuple[float, float]:
    """Seconds of a hand-over between two places, and how many more each byte takes.

    There and back are measured in turns, so both are means of the two ways.
    """
    library = _library((LEAST, *SIZES))

    def seconds(plan: Plan, size: int) -> float:
        # From the start of the first step to the end of the last one.
        traces = _traces(plan, library, size, FEWER.get(size, SAMPLES))
        spans = [trace[-1][1] - trace[0][0] for trace in traces]
        return statistics.quantiles(spans, n=4)[0] / (CHAIN - 1)

    def change(size: int) -> float:
        apart, together = apart_plan(src, dst, size), together_plan(src, size)
        return seconds(apart, size) - seconds(together, size)

    latency = change(LEAST)
    return latency, statistics.median((change(size) - latency) / size for size in SIZES)


def measure_cold(src: CorePlace, dst: CorePlace) -> float:
    """Seconds that each byte takes more where what is handed over has left the caches.

    The two places have one memory. What a hand-over takes itself is not in it.
    """
    warm_size = SIZES[-1]
    library = _library((warm_size, COLD_SIZE))

    def per_byte(plan: Plan, size: int) -> float:
        traces = _traces(plan, library, size, COLD_SAMPLES)
        steps = [[end - start for start, end in step] for step in zip(*traces, strict=True)]
        # The first ones of those that wait read the input.
        each = [statistics.quantiles(times, n=4)[0] for times in steps[-(CHAIN - WAIT) :]]
        return statistics.mean(each) / len(plan.steps[-1].calls) / size

    waiting, together = apart_plan(src, dst, COLD_SIZE, WAIT), together_plan(src, warm_size)
    return per_byte(waiting, COLD_SIZE) - per_byte(together, warm_size)


def together_plan(place: CorePlace, size: int) -> Plan:
    """The chain as one step; what is passed on stands in two places of the arena, in turns."""
    between = [(ArgKind.SCRATCH, size * (i % 2)) for i in range(CHAIN - 1)]
    tensors = [(ArgKind.IN, 0), *between, (ArgKind.OUT, 0)]
    calls = tuple(_call(size, tensors[i], tensors[i + 1]) for i in range(CHAIN))
    step = StepPlan(StepKind.KERNELS, "all", 0, (0,), (1,), scratch=2 * size, calls=calls)
    return _plan([place.memory], [_worker(place, 0)], [0, 0], [step], size)


def apart_plan(src: CorePlace, dst: CorePlace, size: int, wait: int = 1) -> Plan:
    """The chain with a step for each kernel, in turns here and there; one core is one worker.

    Places of one memory may let tensors `wait`: each step reads what was filled so many steps ago.
    """
    places = tuple(dict.fromkeys((src, dst)))
    memories = list(dict.fromkeys(place.memory for place in places))
    workers = [_worker(place, memories.index(place.memory)) for place in places]
    if len(memories) == 2:
        # From and to a device with a memory of its own, on workers of the links, as in real plans.
        workers += [WorkerPlan(f"copy{i}", 1, (), Role.COPY) for i in (0, 1)]
    slots, steps = [0], []
    calls = (_call(size, (ArgKind.IN, 0), (ArgKind.OUT, 0)),)
    for i in range(CHAIN):
        turn = i % len(places)
        here = workers[turn].device
        if slots[-1] != here:
            ends = _through(slots, here, 1)
            steps.append(StepPlan(StepKind.COPY, f"copy {i}", 2 + turn, *ends, to_device=here))
        ends = _through(slots, here, wait)
        steps.append(StepPlan(StepKind.KERNELS, str(i), turn, *ends, calls=calls))
    return _plan(memories, workers, slots, steps, size)


def _through(slots: list[int], device: int, wait: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """A step's slots: it reads the last but `wait` - 1 and fills a new one, on `device`."""
    slots.append(device)
    return (max(len(slots) - 1 - wait, 0),), (len(slots) - 1,)


def _worker(place: CorePlace, device: int) -> WorkerPlan:
    name = f"core {place.core} of memory {device}"
    return WorkerPlan(name, device, (place.core,), Role.COMPUTE)


def _call(size: int, read: tuple[ArgKind, int], written: tuple[ArgKind, int]) -> CallPlan:
    args = (ArgPlan(*read, _tensor(size)), ArgPlan(*written, _tensor(size)))
    return CallPlan(_kernel(size), "add", args, written=1)


def _tensor(size: int) -> TensorPlan:
    return TensorPlan((size // 4,), "float32")


def _kernel(size: int) -> str:
    return f"add_{size}"


def _plan(
    memories: Sequence[tuple[int, int]],
    workers: Sequence[WorkerPlan],
    slots: Sequence[int],
    steps: Sequence[StepPlan],
    size: int,
) -> Plan:
    """A plan whose first slot is its input and whose last one is its output."""
    return Plan(
        1,
        devices=tuple(
            DevicePlan(f"memory{i}", kind, number) for i, (kind, number) in enumerate(memories)
        ),
        workers=tuple(workers),
        slots=tuple(SlotPlan(str(i), d, _tensor(size)) for i, d in enumerate(slots)),
        inputs=(InputPlan("x", 0, _tensor(size)),),
        constants=(),
        outputs=(OutputPlan("y", len(slots) - 1),),
        steps=tuple(steps),
    )


def _traces(plan: Plan, library: Any, size: int, samples: int) -> list[list[tuple[float, float]]]:
    """When each step of a plan started and ended, s, in several runs."""
    import tvm

    from tvm_hetero.executor import native

    executor = native.create(plan)
    try:
        for i, worker in enumerate(plan.workers):
            if worker.role is Role.COMPUTE:
                executor.set_library(i, library)
        kind, number = plan.devices[0].dl_type, plan.devices[0].dl_id
        zeros = np.zeros(size // 4, np.float32)
        executor.set_input(0, tvm.runtime.tensor(zeros, tvm.runtime.device(kind, number)))
        traces = []
        for _ in range(samples):
            executor.run_repeated(_RUNS)
            traces.append(executor.trace())
        return traces
    finally:
        executor.close()


def _library(sizes: Sequence[int]) -> Any:
    """The kernels for tensors of these sizes, compiled for this CPU."""
    import tvm

    from tvm_hetero.platform.discovery import native_mcpu
    from tvm_hetero.platform.host import read_processor

    mcpu = native_mcpu(read_processor())
    target = {"kind": "llvm", **({} if mcpu is None else {"mcpu": mcpu})}
    functions = {_kernel(size): _add(_kernel(size), size // 4) for size in sizes}
    return tvm.tirx.build(tvm.IRModule(functions), target=tvm.target.Target(target))


def _add(name: str, count: int) -> Any:
    """The kernel: it adds 1 to `count` numbers."""
    from tvm import te

    numbers = te.placeholder((count,), "float32", name="numbers")
    added = te.compute((count,), lambda i: numbers[i] + 1.0, name="added")
    return te.create_prim_func([numbers, added]).with_attr("global_symbol", name)
