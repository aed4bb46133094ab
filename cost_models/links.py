"""Links between CPU devices of one machine, measured.

Two CPU devices of one node share memory, so a tensor is handed over by its address, and neither
side is kept busy by it (``overlap: true`` is right for them). It is not free all the same:

latency
    The reader has to be woken. An executor's thread that waits only briefly is still spinning
    and goes on within a microsecond or two, but one that has waited longer sleeps, and waking it
    takes 5 to 50 microseconds. The latency of a link is that of a sleeping reader: a schedule
    then promises no more than the executor keeps. (The lower quartile of many hand-offs; what
    else runs on the machine only adds.)
bandwidth
    The tensor lies in the writer's cache. The bandwidth is the inverse of the *additional* time
    per byte that the reader takes for a tensor from the other core, compared with one of its
    own; the least of several reads each, and the median over sizes from 64 KiB to 4 MiB. This is
    time of the reader's kernel, but it is paid only for tensors that cross, so it is a link's.

Where the difference drowns in noise the bandwidth is taken as `MOST_BANDWIDTH`.
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

# Part of every key: raise it when the way of measuring changes, so that old figures are not used.
METHOD = "links/1"
_WORKER = "tvm_hetero.cost_models.link_worker"
# It takes a tenth of a second; on a busy machine much longer.
_SECONDS = 60.0

# No two cores hand over faster or slower than this (s, bytes/s); what was measured beyond is noise.
LEAST_LATENCY, MOST_LATENCY = 1e-7, 1e-3
LEAST_BANDWIDTH, MOST_BANDWIDTH = 1e9, 1e12


def measure_links(platform: Platform, store: CostStore | None = None) -> Platform:
    """Fill in the links between CPU devices of one node that the platform leaves open.

    Measured are pairs of llvm devices that name their cores and have no link, neither a row of
    their own nor a fabric's, in that direction. Each direction is measured; what was measured
    before is found in the store.

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
    return replace(platform, links=(*platform.links, *links)) if links else platform


def open_pairs(platform: Platform) -> list[tuple[Device, Device]]:
    """The ordered pairs of devices whose link `measure_links` measures."""
    cpus = [d for d in platform.devices if d.kind == "llvm" and d.cores]
    return [
        (a, b)
        for a, b in permutations(cpus, 2)
        if a.node == b.node and platform.link(a.name, b.name) is None
    ]


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


def _ask(src: Device, dst: Device) -> dict[str, Any]:
    """Measure one direction in a child process, from the first core of one to the other's."""
    for device in (src, dst):
        _require_cores(device)
    question = {"ask": "link", "from": [src.cores[0]], "to": [dst.cores[0]]}
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
