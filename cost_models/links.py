"""Links between devices of one machine, measured.

Two CPU devices of one node share memory, so a tensor is handed over by its address, and neither
side is kept busy by it (``overlap: true`` is right for them). It is not free all the same:

latency
    The reader has to notice. An executor's thread spins while it waits for another in a run (up
    to two milliseconds; one that has waited longer sleeps, and waking it takes 5 to 50
    microseconds more, which is little beside such a wait). The latency of a link is that of a
    spinning reader: the lower quartile of many hand-offs; what else runs only adds.
bandwidth
    The tensor lies in the writer's cache. The bandwidth is the inverse of the *additional* time
    per byte that the reader takes for a tensor from the other core, compared with one of its
    own; the least of several reads each, and the median over sizes from 64 KiB to 4 MiB. This is
    time of the reader's kernel, but it is paid only for tensors that cross, so it is a link's.

Where the difference drowns in noise the bandwidth is taken as `MOST_BANDWIDTH`.

Between a CPU and a device with memory of its own, the latency is the least time of a small copy,
and the bandwidth follows from what a large copy takes beyond it, from and to pageable memory, as
the executor copies.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import permutations
from typing import Any

from tvm_hetero.cost_models.store import CostStore
from tvm_hetero.cost_models.worker import Worker, WorkerLost
from tvm_hetero.documents import canonical_json
from tvm_hetero.errors import ProfileError
from tvm_hetero.machine import available_cores, read_processor
from tvm_hetero.platform import Device, Link, Platform
from tvm_hetero.targets import HOST_KINDS, dl_device

# Part of every key: raise it when the way of measuring changes, so that old figures are not used.
METHOD = "links/2"
_WORKER = "tvm_hetero.cost_models.link_worker"
# It takes a tenth of a second; on a busy machine much longer.
_SECONDS = 60.0

# What is measured beyond these bounds (s, bytes/s) is noise. A bare hand-off takes 0.2 us, but the
# executor also has to end one segment and begin another: benchmarks/dispatch.py measures that.
LEAST_LATENCY, MOST_LATENCY = 1e-6, 1e-3
LEAST_BANDWIDTH, MOST_BANDWIDTH = 1e9, 1e12


def measure_links(platform: Platform, store: CostStore | None = None) -> Platform:
    """Fill in the links between devices of one node that the platform leaves open.

    Measured are pairs of CPU devices that name their cores, and pairs of such a one and a device
    with memory of its own that is present, which have no link, neither a row of their own nor a
    fabric's, in that direction. Each direction is measured; what was measured before is found in
    the store.

    Returns
    -------
    Platform
        The platform with these links added; the very same object if there are none.

    Raises
    ------
    ProfileError
        If a device's cores may not be used by this process, or the measurement fails.
    """
    store = CostStore() if store is None else store
    links = [_link(a, b, store) for a, b in open_pairs(platform)]
    links += [_copy_link(platform, a, b, store) for a, b in open_copies(platform)]
    return replace(platform, links=(*platform.links, *links)) if links else platform


def open_pairs(platform: Platform) -> list[tuple[Device, Device]]:
    """The ordered pairs of devices whose link `measure_links` measures."""
    cpus = [d for d in platform.devices if d.kind == "llvm" and d.cores]
    return [
        (a, b)
        for a, b in permutations(cpus, 2)
        if a.node == b.node and platform.link(a.name, b.name) is None
    ]


def open_copies(platform: Platform) -> list[tuple[Device, Device]]:
    """The ordered pairs of a CPU and another device that is here, whose link is measured."""
    pairs = [
        (a, b)
        for a, b in permutations(platform.devices, 2)
        if a.node == b.node and platform.link(a.name, b.name) is None
    ]
    return [(a, b) for a, b in pairs if _is_cpu(a) != _is_cpu(b) and _present(platform, a, b)]


def _is_cpu(device: Device) -> bool:
    return device.kind in HOST_KINDS and bool(device.cores)


def _present(platform: Platform, *devices: Device) -> bool:
    """Whether each device is a CPU, or one that TVM reaches on this machine."""
    others = [d for d in devices if not _is_cpu(d)]
    if any(d.target is None or d.kind in HOST_KINDS for d in others):
        return False
    import tvm

    return all(tvm.runtime.device(*dl_device(platform, d)).exist for d in others)


def copy_figures(copies: Mapping[str, Sequence[float]]) -> tuple[float, float]:
    """Latency (s) and bandwidth (bytes/s) from the seconds of copies by size in bytes."""
    least = {int(size): min(seconds) for size, seconds in copies.items()}
    small, large = min(least), max(least)
    rest = least[large] - least[small]
    bandwidth = (large - small) / rest if rest > 0 else MOST_BANDWIDTH
    return _bounded(least[small], bandwidth)


def link_figures(found: Mapping[str, Any]) -> tuple[float, float]:
    """Latency (s) and bandwidth (bytes/s) from what the child answers.

    `found` has the seconds of each hand-off under ``handoffs``, and those of each read, by size
    in bytes, under ``own`` and ``other``.
    """
    latency = statistics.quantiles(found["handoffs"], n=4)[0]
    per_byte = statistics.median(
        (min(found["other"][size]) - min(found["own"][size])) / int(size)
        for size in found["own"]
    )
    bandwidth = 1 / per_byte if per_byte > 0 else MOST_BANDWIDTH
    return _bounded(latency, bandwidth)


def _bounded(latency: float, bandwidth: float) -> tuple[float, float]:
    return (
        _three_digits(min(max(latency, LEAST_LATENCY), MOST_LATENCY)),
        _three_digits(min(max(bandwidth, LEAST_BANDWIDTH), MOST_BANDWIDTH)),
    )


def _three_digits(value: float) -> float:
    """Round to what was measured: more digits would only make platform files hard to read."""
    return float(f"{value:.3g}")


def _link(src: Device, dst: Device, store: CostStore) -> Link:
    place = canonical_json([METHOD, read_processor().identity, list(src.cores), list(dst.cores)])
    known = store.find_link(place)
    if known is None:
        known = link_figures(_ask(src, dst))
        store.add_link(place, *known)
    latency, bandwidth = known
    return Link(src.name, dst.name, bandwidth=bandwidth, latency=latency)


def _copy_link(platform: Platform, src: Device, dst: Device, store: CostStore) -> Link:
    """A link between a CPU and a device with memory of its own."""
    cpu, other = (src, dst) if _is_cpu(src) else (dst, src)
    _require_cores(cpu)
    places = [list(dl_device(platform, device)) for device in (src, dst)]
    question = {"ask": "copy", "from": places[0], "to": places[1], "core": cpu.cores[0]}
    processor = read_processor().identity
    key = canonical_json([METHOD, processor, dict(other.target or {}), question])
    known = store.find_link(key)
    if known is None:
        known = copy_figures(_answer(src, dst, question)["copies"])
        store.add_link(key, *known)
    latency, bandwidth = known
    return Link(src.name, dst.name, bandwidth=bandwidth, latency=latency)


def _ask(src: Device, dst: Device) -> dict[str, Any]:
    """Measure one direction between CPUs, from the first core of one to the other's."""
    for device in (src, dst):
        _require_cores(device)
    return _answer(src, dst, {"ask": "link", "from": [src.cores[0]], "to": [dst.cores[0]]})


def _answer(src: Device, dst: Device, question: dict[str, Any]) -> dict[str, Any]:
    """Have a child process measure."""
    with Worker(_WORKER) as worker:
        try:
            found = worker.ask(question, _SECONDS)
        except WorkerLost as lost:
            found = {"error": str(lost)}
    if "error" in found:
        raise ProfileError(
            f"the link from {src.name!r} to {dst.name!r} cannot be measured: {found['error']}; "
            "give it a latency and a bandwidth in the platform"
        )
    return found


def _require_cores(device: Device) -> None:
    here = available_cores()
    missing: Sequence[int] = sorted(set(device.cores) - here)
    if missing:
        raise ProfileError(
            f"device {device.name!r} has core(s) {missing}, but this process may only use "
            f"{sorted(here)}; correct the platform, or give its links a latency and a bandwidth"
        )
