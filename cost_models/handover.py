"""What it costs the executor to go on with a chain of kernels on another device.

Two plans run the same chain of kernels that do next to nothing:

    apart      each kernel is a step; the steps are on two workers, in turns
    together   all of them are one step, on the first worker

What the first takes longer, divided by the number of times that it changes the worker, is the time
from the end of a segment here to the start of the next one there: ending a step, telling the other
worker, its noticing (it spins), starting a step. Where the two places have memories of their own, a
copy of a few bytes by a copying worker is part of it.

Both are timed by the executor, many times, from the start of the first step to the end of the last
one: how long the caller takes to start a run is no part of it, and depends on which core the caller
happens to be on. What else runs only adds, so the lower quartile counts. Wake-ups of workers that
have waited for so long that they sleep (2 ms) are no part of it either.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

# Kernels of a chain: the mean of so many hand-overs is one sample.
CHAIN = 33
SAMPLES = 200
# Runs for each sample, of which the last one counts.
_RUNS = 3
_KERNEL = "tiny"
_SHAPE = [16]  # 64 bytes: the least that can be a tensor of a plan's arena
_TENSOR = {"shape": _SHAPE, "dtype": "float32"}


@dataclass(frozen=True)
class Place:
    """A core, and the memory that is worked in from there, as DLPack numbers it."""

    core: int
    memory: tuple[int, int] = (1, 0)


def handover_seconds(src: Place, dst: Place) -> list[float]:
    """Seconds of one hand-over between two places, in each of many samples.

    Measured both ways in turns, so it is the mean of there and back.
    """
    import tvm

    library = tvm.tirx.build(_tiny(), target="llvm")
    base = statistics.quantiles(_spans(together_plan(src), library), n=4)[0]
    spans = _spans(apart_plan(src, dst), library)
    return [(seconds - base) / (CHAIN - 1) for seconds in spans]


def together_plan(place: Place) -> dict[str, Any]:
    """The chain as one step; what is passed on stands in two places of the arena, in turns."""
    tensors = [{"in": 0}, *({"scratch": 64 * (i % 2)} for i in range(CHAIN - 1)), {"out": 0}]
    calls = [_call(str(i), tensors[i], tensors[i + 1]) for i in range(CHAIN)]
    step = {"name": "all", "kind": "kernels", "worker": 0, "ins": [0], "outs": [1], "scratch": 128}
    return _plan([place.memory], [_worker(place, 0)], [0, 0], [{**step, "calls": calls}])


def apart_plan(src: Place, dst: Place) -> dict[str, Any]:
    """The chain with a step for each kernel, in turns here and there."""
    places = (src, dst)
    memories = list(dict.fromkeys(place.memory for place in places))
    workers = [_worker(place, memories.index(place.memory)) for place in places]
    if len(memories) == 2:
        # From and to a device with a memory of its own, on workers of the links, as in real plans.
        workers += [{"name": f"copy{i}", "device": 1, "cores": [], "role": "copy"} for i in (0, 1)]
    slots, steps = [0], []
    for i in range(CHAIN):
        here = workers[i % 2]["device"]
        if slots[-1] != here:
            copy = {"kind": "copy", "worker": 2 + i % 2, "to_device": here}
            steps.append({**copy, "name": f"copy {i}", **_through(slots, here)})
        step = {"name": str(i), "kind": "kernels", "worker": i % 2, "scratch": 0}
        calls = [_call(str(i), {"in": 0}, {"out": 0})]
        steps.append({**step, "calls": calls, **_through(slots, here)})
    return _plan(memories, workers, slots, steps)


def _through(slots: list[int], device: int) -> dict[str, list[int]]:
    """A step's slots: it reads the last one and fills a new one, on `device`."""
    slots.append(device)
    return {"ins": [len(slots) - 2], "outs": [len(slots) - 1]}


def _worker(place: Place, device: int) -> dict[str, Any]:
    name = f"core{place.core} of {device}"
    return {"name": name, "device": device, "cores": [place.core], "role": "compute"}


def _call(task: str, read: dict[str, int], written: dict[str, int]) -> dict[str, Any]:
    args = [{**read, **_TENSOR}, {**written, **_TENSOR}]
    return {"kernel": _KERNEL, "task": task, "args": args, "written": 1}


def _plan(
    memories: Sequence[tuple[int, int]],
    workers: list[dict[str, Any]],
    slots: Sequence[int],
    steps: list[dict[str, Any]],
) -> dict[str, Any]:
    """A plan whose first slot is its input and whose last one is its output."""
    for i, worker in enumerate(workers):
        worker["name"] = f"{i}: {worker['name']}"
    return {
        "format": "tvm-hetero/plan/2",
        "batch": 1,
        "devices": [
            {"name": f"memory{i}", "dl_type": kind, "dl_id": number}
            for i, (kind, number) in enumerate(memories)
        ],
        "workers": workers,
        "slots": [{"name": str(i), "device": d, **_TENSOR} for i, d in enumerate(slots)],
        "inputs": [{"name": "x", "slot": 0, **_TENSOR}],
        "constants": [],
        "outputs": [{"name": "y", "slot": len(slots) - 1}],
        "steps": steps,
    }


def _spans(plan: dict[str, Any], library: Any) -> list[float]:
    """Seconds from the start of the first step of a plan to the end of its last one."""
    import tvm

    from tvm_hetero.runtime import native

    executor = native.create(plan)
    try:
        for i, worker in enumerate(plan["workers"]):
            if worker["role"] == "compute":
                executor.set_library(i, library)
        kind, number = (plan["devices"][0][key] for key in ("dl_type", "dl_id"))
        zeros = np.zeros(_SHAPE, np.float32)
        executor.set_input(0, tvm.runtime.tensor(zeros, tvm.runtime.device(kind, number)))
        spans = []
        for _ in range(SAMPLES):
            executor.run_repeated(_RUNS)
            trace = executor.trace()
            spans.append(trace[-1][1] - trace[0][0])
        return spans
    finally:
        executor.close()


def _tiny() -> Any:
    """The module with the kernel: it adds 1 to 16 numbers."""
    import tvm
    from tvm.script import tirx as T

    @T.prim_func(s_tir=True)
    def tiny(a: T.Buffer((16,), "float32"), b: T.Buffer((16,), "float32")) -> None:  # type: ignore
        T.func_attr({"tirx.noalias": True, "global_symbol": "tiny"})
        for i in range(16):
            with T.sblock("add"):
                v = T.axis.spatial(16, i)
                b[v] = a[v] + T.float32(1)

    return tvm.IRModule({_KERNEL: tiny})
