"""The child process that measures links: ``python -m tvm_hetero.cost_models.links.link_worker``.

Between CPU places the executor itself runs chains of kernels on two workers
(`tvm_hetero.cost_models.links.handover`); between a CPU and a device of another kind, copies of
several sizes are timed.
"""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np

from tvm_hetero.processes.child_server import serve

READS = 15
# A small copy shows the latency, large ones the rate.
COPIES = (4 * 1024, 1024 * 1024, 16 * 1024 * 1024)
_CPU = 1  # DLPack's kDLCPU


def answer(question: dict[str, Any]) -> dict[str, Any]:
    """Measure one link: ``from`` and ``to`` have each a ``core``, or None, and a ``memory``."""
    src, dst = question["from"], question["to"]
    if src["core"] is None or dst["core"] is None:
        return {"copies": _copies(src, dst)}
    # Loading TVM takes a second, and needs no cores of its own: not before it is asked for.
    from tvm_hetero.cost_models.links.handover import CorePlace, measure_cold, measure_handover

    here, there = (CorePlace(place["core"], tuple(place["memory"])) for place in (src, dst))
    latency, per_byte = measure_handover(here, there)
    found = {"latency": latency, "per_byte": per_byte}
    return found if here.memory != there.memory else {**found, "cold": measure_cold(here, there)}


def _copies(*places: dict[str, Any]) -> dict[str, list[float]]:
    """Seconds of copies from one memory to another, by size."""
    os.sched_setaffinity(0, [p["core"] for p in places if p["core"] is not None][:1])
    import tvm

    here, there = (tvm.runtime.device(*place["memory"]) for place in places)
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
    return copies


if __name__ == "__main__":
    serve(answer)
