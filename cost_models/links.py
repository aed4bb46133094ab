"""Links between devices of one machine, measured.

Two CPU devices of one node share memory, so a tensor is handed over by its address, and neither
side is kept busy by it (``overlap: true`` is right for them). It is not free all the same:

latency
    What the executor needs from the end of a segment on one device to the start of the next one on
    the other, measured on the executor itself (`tvm_hetero.cost_models.handover`); the lower
    quartile of many, since what else runs only adds.
bandwidth
    The tensor lies in the writer's cache. The bandwidth is the inverse of the *additional* time
    per byte that the reader takes for a tensor from the other core, compared with one of its
    own; the least of several reads each, and the median over sizes from 64 KiB to 4 MiB. This is
    time of the reader's kernel, but it is paid only for tensors that cross, so it is a link's.

Where the difference drowns in noise the bandwidth is taken as `MOST_BANDWIDTH`.

Between a CPU and a device with memory of its own, the latency is the least time of a small copy
(or, where that is a CPU too, of a hand-over with such a copy in it), and the bandwidth follows from
what a large copy takes beyond a small one, from and to pageable memory, as the executor copies.
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
from tvm_hetero.passes.io_tasks import is_host
from tvm_hetero.platform import Device, Link, Platform
from tvm_hetero.targets import CPU, HOST_KINDS, dl_device

# Part of every key: raise it when the way of measuring changes, so that old figures are not used.
METHOD = "links/3"
_WORKER = "tvm_hetero.cost_models.link_worker"
# It takes two seconds, most of them to load TVM; on a busy machine much longer.
_SECONDS = 60.0

# What is measured beyond these bounds (s, bytes/s) is noise: a line of cache alone takes 0.1 us
# from one core to another.
LEAST_LATENCY, MOST_LATENCY = 1e-7, 1e-3
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
    cpus = [d for d in platform.devices if _is_cpu(d)]
    return [
        (a, b)
        for a, b in permutations(cpus, 2)
        if a.node == b.node and platform.link(a.name, b.name) is None
    ]


def open_copies(platform: Platform) -> list[tuple[Device, Device]]:
    """The ordered pairs of a CPU and a device with its own memory whose link is measured."""
    pairs = [
        (a, b)
        for a, b in permutations(platform.devices, 2)
        if a.node == b.node and platform.link(a.name, b.name) is None
    ]
    return [(a, b) for a, b in pairs if _is_cpu(a) != _is_cpu(b) and _present(platform, a, b)]


def _is_cpu(device: Device) -> bool:
    """Whether a device computes in main memory, on known cores."""
    return is_host(device) and bool(device.cores)


def _present(platform: Platform, *devices: Device) -> bool:
    """Whether each device is a CPU on known cores, or one that TVM reaches on this machine."""
    others = [d for d in devices if d.kind not in HOST_KINDS]
    if any(d.target is None for d in others) or not all(
        d.cores for d in devices if d not in others
    ):
        return False
    import tvm

    return all(tvm.runtime.device(*dl_device(platform, d)).exist for d in others)


def _cores_known(device: Device) -> bool:
    return device.kind not in HOST_KINDS or bool(device.cores)


def copy_figures(
    copies: Mapping[str, Sequence[float]], handovers: Sequence[float] = ()
) -> tuple[float, float]:
    """Latency (s) and bandwidth (bytes/s) from the seconds of copies by size in bytes.

    `handovers` are seconds of copies from kernel to kernel, where these were measured.
    """
    least = {int(size): min(seconds) for size, seconds in copies.items()}
    small, large = min(least), max(least)
    rest = least[large] - least[small]
    bandwidth = (large - small) / rest if rest > 0 else MOST_BANDWIDTH
    latency = statistics.quantiles(handovers, n=4)[0] if handovers else least[small]
    return _bounded(latency, bandwidth)


def link_figures(found: Mapping[str, Any]) -> tuple[float, float]:
    """Latency (s) and bandwidth (bytes/s) from what the child answers.

    `found` has the seconds of each hand-over under ``handovers``, and those of each read, by size
    in bytes, under ``own`` and ``other``.
    """
    latency = statistics.quantiles(found["handovers"], n=4)[0]
    per_byte = statistics.median(
        (min(found["other"][size]) - min(found["own"][size])) / int(size) for size in found["own"]
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
    """A link between CPUs that share a memory, from the first core of one to the other's."""
    for device in (src, dst):
        _require_cores(device)
    key = canonical_json([METHOD, read_processor().identity, list(src.cores), list(dst.cores)])
    known = store.find_link(key)
    if known is None:
        places = [{"core": device.cores[0], "memory": [CPU, 0]} for device in (src, dst)]
        found = _answer(src, dst, {"ask": "link", "from": places[0], "to": places[1]})
        known = link_figures(found)
        store.add_link(key, *known)
    latency, bandwidth = known
    return Link(src.name, dst.name, bandwidth=bandwidth, latency=latency)


def _copy_link(platform: Platform, src: Device, dst: Device, store: CostStore) -> Link:
    """A link between a CPU and a device with memory of its own."""
    places, others = [], []
    for device in (src, dst):
        on_cpu = device.kind in HOST_KINDS
        if on_cpu:
            _require_cores(device)
        else:
            others.append(dict(device.target or {}))
        memory = list(dl_device(platform, device))
        places.append({"core": device.cores[0] if on_cpu else None, "memory": memory})
    question = {"ask": "copy", "from": places[0], "to": places[1]}
    key = canonical_json([METHOD, read_processor().identity, others, question])
    known = store.find_link(key)
    if known is None:
        found = _answer(src, dst, question)
        known = copy_figures(found["copies"], found["handovers"])
        store.add_link(key, *known)
    latency, bandwidth = known
    return Link(src.name, dst.name, bandwidth=bandwidth, latency=latency)


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
