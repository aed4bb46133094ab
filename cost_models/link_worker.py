"""The child process that measures links: ``python -m tvm_hetero.cost_models.link_worker``.

Hand-over
    The executor runs a chain of tiny kernels on two workers (`tvm_hetero.cost_models.handover`).
Reading
    The process splits in two: a producer pinned to one core and a consumer pinned to the other,
    which share memory, as the threads of an executor do (processes, because Python's threads would
    wait for each other's interpreter lock). The consumer copies a tensor that the producer has just
    written, and one that it has written itself. The difference is what it takes to fetch the tensor
    from the other core.

Between a CPU and a device with memory of its own, copies of several sizes are timed, and hand-overs
where that is a CPU too.
"""

from __future__ import annotations

import json
import mmap
import os
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvm_hetero.cost_models.child import serve

# Below 64 KiB a copy is over before it can be timed; 4 MiB is a large activation.
SIZES = (64 * 1024, 256 * 1024, 1024 * 1024, 4 * 1024 * 1024)
READS = 15
# A small copy shows the latency, large ones the rate.
COPIES = (4 * 1024, 1024 * 1024, 16 * 1024 * 1024)
_CPU = 1  # DLPack's kDLCPU


class _Signal:
    """A pipe for one byte at a time: ``send`` wakes the one who is in ``wait``."""

    def __init__(self) -> None:
        self._out, self._in = os.pipe()

    def send(self) -> None:
        os.write(self._in, b"!")

    def wait(self) -> None:
        if not os.read(self._out, 1):
            raise EOFError("the other process is gone")

    def close(self) -> None:
        os.close(self._out)
        os.close(self._in)


@dataclass
class _Shared:
    """What the two processes share."""

    data: np.ndarray[Any, np.dtype[np.float32]]
    ready: _Signal
    given: _Signal

    @classmethod
    def make(cls) -> _Shared:
        data = np.frombuffer(mmap.mmap(-1, max(SIZES)), np.float32, max(SIZES) // 4)
        data[:] = 1.0  # touch every page now
        return cls(data, _Signal(), _Signal())


def answer(question: dict[str, Any]) -> dict[str, Any]:
    """Measure one link: ``from`` and ``to`` have each a ``core``, or None, and a ``memory``."""
    src, dst = question["from"], question["to"]
    cores = os.sched_getaffinity(0)
    if question["ask"] == "copy":
        found = _between_memories(src, dst)
    else:
        found = _between_cores(src["core"], dst["core"])
    os.sched_setaffinity(0, cores)
    on_cpus = all(place["core"] is not None for place in (src, dst))
    return {**found, "handovers": _handovers(src, dst) if on_cpus else []}


def _handovers(*places: dict[str, Any]) -> list[float]:
    """Seconds of the executor's hand-overs between two CPU places."""
    from tvm_hetero.cost_models.handover import Place, handover_seconds

    src, dst = (Place(place["core"], tuple(place["memory"])) for place in places)
    return handover_seconds(src, dst)


def _between_memories(*places: dict[str, Any]) -> dict[str, Any]:
    """Seconds of copies from one memory to another, by size."""
    os.sched_setaffinity(0, [p["core"] for p in places if p["core"] is not None][:1])
    import tvm

    src, dst = (place["memory"] for place in places)

    here, there = tvm.runtime.device(*src), tvm.runtime.device(*dst)
    # The end that is no CPU is the one that copies, and the one to wait for.
    engine = here if there.dlpack_device_type() == _CPU else there
    copies: dict[str, list[float]] = {}
    for size in COPIES:
        source = tvm.runtime.tensor(np.full(size // 4, 1.5, np.float32), here)
        target = tvm.runtime.empty((size // 4,), "float32", there)
        copies[str(size)] = []
        for _ in range(READS):
            engine.sync()
            start = time.perf_counter()
            source.copyto(target)
            engine.sync()
            copies[str(size)].append(time.perf_counter() - start)
    return {"copies": copies}


def _between_cores(src: int, dst: int) -> dict[str, Any]:
    """Both kinds of reads (s), by size (bytes)."""
    shared = _Shared.make()
    results, results_in = os.pipe()
    consumer = os.fork()
    if consumer == 0:
        _consumer_process(shared, dst, results_in)
    os.close(results_in)
    os.sched_setaffinity(0, [src])
    _produce(shared)
    with os.fdopen(results) as file:
        found: dict[str, Any] = json.loads(file.read())
    os.waitpid(consumer, 0)
    shared.ready.close()
    shared.given.close()
    return found


def _consumer_process(shared: _Shared, core: int, results: int) -> None:
    """What the second process does; it never returns."""
    status = 1
    try:
        os.sched_setaffinity(0, [core])
        text = json.dumps(_consume(shared))
        with os.fdopen(results, "w") as file:
            file.write(text)
        status = 0
    finally:
        os._exit(status)


def _produce(shared: _Shared) -> None:
    for size in SIZES:
        source = np.full(size // 4, 1.5, np.float32)
        for _ in range(READS):
            shared.ready.wait()
            shared.data[: size // 4] = source
            shared.given.send()


def _consume(shared: _Shared) -> dict[str, Any]:
    own, other = {}, {}
    for size in SIZES:
        reads = [_read_both(shared, size) for _ in range(READS)]
        own[str(size)] = [a for a, _ in reads]
        other[str(size)] = [b for _, b in reads]
    return {"own": own, "other": other}


def _read_both(shared: _Shared, size: int) -> tuple[float, float]:
    """Seconds to read a tensor that this core has written, and one that the other has."""
    data = shared.data[: size // 4]
    into = np.full(size // 4, 2.0, np.float32)
    data[:] = into
    own = _read(data, into)
    shared.ready.send()
    shared.given.wait()
    return own, _read(data, into)


def _read(data: np.ndarray[Any, Any], into: np.ndarray[Any, Any]) -> float:
    into += 1.0  # have the destination in the cache, and the core out of its sleep
    start = time.perf_counter()
    np.copyto(into, data)
    return time.perf_counter() - start


if __name__ == "__main__":
    serve(answer)
