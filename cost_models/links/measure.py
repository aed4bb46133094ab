"""Links between devices of one machine, measured.

Two CPU devices of one node share memory, so a tensor is handed over by its address. It is not free
all the same:

latency
    What the executor needs from the end of a segment on one device to the start of the next one on
    the other.
bandwidth
    What a tensor costs by the byte because another core has written it or reads it. This is time of
    the kernels at both ends (so ``overlap: false`` is right for them), but it is paid only for
    tensors that cross, so it is a link's.
cold bandwidth
    The same of tensors that have left the caches before they are read. It is taken as no more than
    the bandwidth.

All are measured on the executor itself (`tvm_hetero.cost_models.links.handover`), as are the links
of a private CPU device (without the last), with the copies that these need. Where a figure drowns
in noise the bandwidth is taken as `MOST_BANDWIDTH`.

Of teams of cores each core has made, or reads, its share of a tensor. So of what goes from one team
to another that shares cores with it a part stays where it is (`crossing_share`), and the link
has so much more bandwidth than one between two of their cores that differ.

On a virtual machine these are figures of a moment: where its processors are moved about among the
cores of the host, two of them may share a cache now and none a minute later.
(The benchmarks of execution keep it in their rows: `benchmarks/execution/mode.py`.)

Between a CPU and a device of another kind, the latency is the least time of a small copy, and the
bandwidth follows from what a large copy takes beyond it, from and to pageable memory, as the
executor copies.

To and from a board that is reached by RPC the figures are the board's own, whichever CPU is at the
other end (`tvm_hetero.cost_models.links.rpc_devices`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import permutations
from typing import Any

from tvm_hetero.cost_models.links.rpc_devices import RpcDeviceFigures, measure_rpc_device
from tvm_hetero.cost_models.store import CostStore
from tvm_hetero.devices.target import HOST_KINDS, dl_device
from tvm_hetero.errors import ProfileError
from tvm_hetero.passes.io_tasks import is_host
from tvm_hetero.platform.devices import Device, Link, is_local_cpu
from tvm_hetero.platform.host import available_cores, read_processor
from tvm_hetero.platform.model import Platform
from tvm_hetero.processes.child_process import Worker, WorkerLost
from tvm_hetero.util.documents import canonical_json

# Part of every key: raise it when the way of measuring changes, so that old figures are not used.
METHOD = "links/5"
_WORKER = "tvm_hetero.cost_models.links.link_worker"
# It takes two seconds, most of them to load TVM; beside thirty other programs it took a minute.
_SECONDS = 300.0

# What is measured beyond these bounds (s, bytes/s) is noise: a line of cache alone takes 0.1 us
# from one core to another.
LEAST_LATENCY, MOST_LATENCY = 1e-7, 1e-3
LEAST_BANDWIDTH, MOST_BANDWIDTH = 1e9, 1e12


def measure_links(
    platform: Platform,
    store: CostStore | None = None,
    *,
    again: bool = False,
    assumed: tuple[float, float] | None = None,
    tell: Callable[[int, int], None] = lambda _done, _total: None,
) -> Platform:
    """Fill in the links between devices of one node that the platform leaves open.

    Measured are pairs of CPU devices that name their cores, and pairs of such a one and a device
    with memory of its own that is present, which have no link, neither a row of their own nor a
    fabric's, in that direction. What was measured before is found in the store, unless it shall be
    measured `again`. With `assumed` (latency, bandwidth) a link between two CPU devices of which
    nothing is known is taken to have these. `tell` hears how many links are known, of how many.

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
    pairs = [*open_pairs(platform), *open_copies(platform)]
    known: dict[str, tuple[float, float]] = {}
    boards: dict[str, RpcDeviceFigures] = {}
    for device in platform.devices:
        if device.rpc is not None and any(device in pair for pair in pairs):
            boards[device.name] = measure_rpc_device(device, store, again=again)
    links: list[Link] = []
    for a, b in pairs:
        tell(len(links), len(pairs))
        links.append(
            _board_link(a, b, boards)
            if a.name in boards or b.name in boards
            else _link(platform, a, b, None if again else store, known, assumed)
        )
    for key, figures in known.items():
        store.add_link(key, *figures)
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
    others = [d for d in devices if d.kind not in HOST_KINDS or d.rpc is not None]
    if any(d.target is None for d in others) or not all(
        d.cores for d in devices if d not in others
    ):
        return False
    import tvm

    here = [d for d in others if d.rpc is None]  # of a board no one knows before it is called
    return all(tvm.runtime.device(*dl_device(platform, d)).exist for d in here)


def copy_figures(copies: Mapping[str, Sequence[float]]) -> tuple[float, float]:
    """Latency (s) and bandwidth (bytes/s) from the seconds of copies by size in bytes."""
    least = {int(size): min(seconds) for size, seconds in copies.items()}
    small, large = min(least), max(least)
    return link_figures(least[small], (least[large] - least[small]) / (large - small))


def link_figures(latency: float, per_byte: float) -> tuple[float, float]:
    """Latency (s) and bandwidth (bytes/s) from what was measured, without what is noise."""
    return _bounded(latency, 1 / per_byte if per_byte > 0 else MOST_BANDWIDTH)


def _bounded(latency: float, bandwidth: float) -> tuple[float, float]:
    return (
        _three_digits(min(max(latency, LEAST_LATENCY), MOST_LATENCY)),
        _three_digits(min(max(bandwidth, LEAST_BANDWIDTH), MOST_BANDWIDTH)),
    )


def _three_digits(value: float) -> float:
    """Round to what was measured: more digits would only make platform files hard to read."""
    return float(f"{value:.3g}")


def _link(
    platform: Platform,
    src: Device,
    dst: Device,
    store: CostStore | None,
    measured: dict[str, tuple[float, float]],
    assumed: tuple[float, float] | None,
) -> Link:
    """A link between two devices; at least one is a CPU here, whose first core is measured.

    What is neither in the store nor `measured` yet is measured, and noted there; or `assumed`.
    """
    places, others = [], []
    cores = differing_cores(src, dst)
    for device, core in zip((src, dst), cores, strict=True):
        if device.kind in HOST_KINDS:
            _require_cores(device)
        else:
            others.append(dict(device.target or {}))
        memory = list(dl_device(platform, device))
        places.append({"core": core, "memory": memory})
    if not others:
        places.sort(key=canonical_json)  # measured both ways in turns: one figure for the two
    question = {"from": places[0], "to": places[1]}
    shared = places[0]["memory"] == places[1]["memory"]
    kinds = ["warm", "cold"] if shared else ["warm"]
    where = [METHOD, read_processor().identity, others, question]
    keys = [canonical_json([*where, kind]) for kind in kinds]
    known = [measured.get(k) or (None if store is None else store.find_link(k)) for k in keys]
    figures = [pair for pair in known if pair is not None]
    if len(figures) < len(keys) and assumed is not None and not others:
        figures = [assumed] * len(keys)
    elif len(figures) < len(keys):
        figures = _figures(_answer(src, dst, question))
        measured.update(zip(keys, figures, strict=True))
    crossing = crossing_share(src, dst)
    latency, bandwidth = figures[0][0], _of_share(figures[0][1], crossing)
    cold = _of_share(figures[1][1], crossing) if shared else None
    return Link(src.name, dst.name, bandwidth, latency, cold_bandwidth=cold)


def differing_cores(src: Device, dst: Device) -> tuple[int | None, int | None]:
    """The cores between which a link is measured: the first of each, or ones that differ.

    None for a device that is not on a CPU here.
    """
    first, second = (d.cores[0] if d.kind in HOST_KINDS else None for d in (src, dst))
    if first is None or second is None or first != second:
        return first, second
    return next(((a, b) for a in src.cores for b in dst.cores if a != b), (first, second))


def crossing_share(src: Device, dst: Device) -> float:
    """Which share of a tensor is made on another core than the one that reads it.

    Of a cores that make it and b that read it each does 1/a and 1/b, so of each core that is in
    both teams the smaller of the two shares stays.
    """
    if src.kind not in HOST_KINDS or dst.kind not in HOST_KINDS:
        return 1.0
    common = len(set(src.cores) & set(dst.cores))
    return 1.0 - common / max(len(src.cores), len(dst.cores))


def _of_share(bandwidth: float, crossing: float) -> float:
    """Bandwidth of all bytes where only a share of them crosses."""
    return min(bandwidth / crossing, MOST_BANDWIDTH) if crossing > 0 else MOST_BANDWIDTH


def _figures(found: Mapping[str, Any]) -> list[tuple[float, float]]:
    """Latency (s) and bandwidth (bytes/s) of an answer, and those of cold tensors if it has any."""
    if "copies" in found:
        return [copy_figures(found["copies"])]
    per_bytes = [found["per_byte"]]
    if "cold" in found:
        per_bytes.append(max(found["cold"], found["per_byte"]))
    return [link_figures(found["latency"], per_byte) for per_byte in per_bytes]


def _board_link(src: Device, dst: Device, boards: Mapping[str, RpcDeviceFigures]) -> Link:
    """A link to or from a board; the other end is a CPU here."""
    there = dst.name in boards
    latency, bandwidth = boards[dst.name].there if there else boards[src.name].back
    return Link(src.name, dst.name, bandwidth=bandwidth, latency=latency)


def _answer(src: Device, dst: Device, question: dict[str, Any]) -> dict[str, Any]:
    """Have a child process measure."""
    with Worker(_WORKER, host_only=is_local_cpu(src) and is_local_cpu(dst)) as worker:
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
