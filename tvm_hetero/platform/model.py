"""Platforms: the devices of one or several machines, and the links between them.

A platform is a directed graph of devices. Moving a tensor takes the direct link if there is one,
else the cheapest path of links *for the bytes that are moved*, hop by hop (store and forward).
Among paths of equal time the one with fewer hops wins, then the one whose device names come
first in the platform, so that the path is the same on every machine.

Reading and writing the ``tvm-hetero/platform/1`` format is in `tvm_hetero.platform.format`,
finding out what this machine is in `tvm_hetero.platform.discovery`.
"""

from __future__ import annotations

import heapq
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

from tvm_hetero.errors import PlatformError
from tvm_hetero.platform.rpc_endpoint import Remote
from tvm_hetero.util.documents import nearest

# Kinds of TVM targets that compute on the machine's own processor.
HOST_KINDS = ("llvm", "c")


@dataclass(frozen=True)
class Device:
    """A place where tasks run, or at least where tensors may stop on their way.

    Attributes
    ----------
    name : unique, ``[A-Za-z0-9_.-]+``.
    node : the machine that it belongs to.
    target : TVM target (``{"kind": "llvm", "mcpu": "x86-64-v3"}``), or None.
    cores : CPU cores that its threads are pinned to.
    memory : capacity in bytes, None for unlimited.
    overlap : True if a copy engine moves tensors while the device computes.
    peak_flops : flop/s; bandwidth : bytes/s; launch : s per kernel (analytical cost model).
    watts, idle_watts : power while busy and while idle; price : money per hour.
    interference : by how much its kernels are slower while all devices compute than alone: a
        factor of at least 1, which costs that were measured alone are multiplied by.
    private : a CPU device with a memory of its own: tensors are copied to and from it as to and
        from a GPU, so that this path runs where there is none.
    rpc : where the device is, if it is a board that only speaks TVM's RPC (it has a memory of its
        own, and does one thing at a time); None: a device of its node.
    """

    name: str
    node: str = "node0"
    target: Mapping[str, Any] | None = None
    cores: tuple[int, ...] = ()
    memory: int | None = None
    overlap: bool = False
    peak_flops: float | None = None
    bandwidth: float | None = None
    launch: float | None = None
    watts: float | None = None
    idle_watts: float = 0.0
    price: float | None = None
    private: bool = False
    interference: float = 1.0
    rpc: Remote | None = None

    @property
    def kind(self) -> str:
        """The kind of the TVM target: ``llvm``, ``cuda``, ..., or ``unknown``."""
        return str(self.target["kind"]) if self.target else "unknown"


@dataclass(frozen=True)
class Link:
    """A one-way connection. Moving b bytes takes ``latency + b / bandwidth`` seconds.

    `cold_bandwidth` (bytes/s) is that between devices that compute in one memory of bytes that have
    left the caches before they are read; None: as `bandwidth`. No rule of a schedule reads it.
    """

    src: str
    dst: str
    bandwidth: float = math.inf
    latency: float = 0.0
    exclusive: bool = False
    cold_bandwidth: float | None = None

    def seconds(self, nbytes: float) -> float:
        """Time to move `nbytes` over this link, s."""
        return self.latency + nbytes / self.bandwidth

    def cold_seconds(self, nbytes: float) -> float:
        """The same of bytes that have left the caches, s."""
        return self.latency + nbytes / (self.cold_bandwidth or self.bandwidth)


@dataclass(frozen=True)
class Fabric:
    """Links between every two devices of one node, or (`node` None) of different nodes."""

    node: str | None
    bandwidth: float = math.inf
    latency: float = 0.0
    exclusive: bool = False


@dataclass(frozen=True)
class Platform:
    """Devices and links. `links` hold the explicit ones, `fabrics` the regular ones.

    Two devices that compute on one core slow each other in ways that no cost says, so a plan for
    them is refused (see `check_cores`) unless `shared_cores` asks for it.

    Raises
    ------
    PlatformError
        When it is made: no devices, a repeated name or link, a link or fabric to nowhere, a
        private device that is no CPU.
    """

    devices: tuple[Device, ...]
    links: tuple[Link, ...] = ()
    fabrics: tuple[Fabric, ...] = ()
    name: str = "platform"
    shared_cores: bool = False
    _paths: dict[tuple[str, str, float], tuple[Link, ...]] = field(
        default_factory=dict, init=False, repr=False, compare=False, hash=False
    )
    _outward: dict[int, list[tuple[int, Link]]] = field(
        default_factory=dict, init=False, repr=False, compare=False, hash=False
    )

    def __post_init__(self) -> None:
        _check_devices(self.devices)
        _check_links(self)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Platform:
        """Read a platform file (YAML or JSON, format ``tvm-hetero/platform/1``)."""
        from tvm_hetero.platform.format import load_platform

        return load_platform(path)

    @classmethod
    def detect(cls) -> Platform:
        """Describe this machine (see `tvm_hetero.platform.discovery`)."""
        from tvm_hetero.platform.discovery import detect_platform

        return detect_platform()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write this platform as YAML, or as JSON if `path` ends in ``.json``."""
        from tvm_hetero.platform.format import save_platform

        save_platform(self, path)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the devices, in order."""
        return tuple(device.name for device in self.devices)

    @cached_property
    def index(self) -> dict[str, int]:
        """Position of every device."""
        return {name: i for i, name in enumerate(self.names)}

    def device(self, name: str) -> Device:
        """The device of that name.

        Raises
        ------
        PlatformError
            If there is none; the nearest name is suggested.
        """
        if name not in self.index:
            raise PlatformError(
                f"platform {self.name!r} has no device {name!r}{nearest(name, self.index)}"
            )
        return self.devices[self.index[name]]

    @cached_property
    def _explicit(self) -> dict[tuple[str, str], Link]:
        return {(link.src, link.dst): link for link in self.links}

    @cached_property
    def _fabric_of(self) -> dict[str | None, Fabric]:
        return {fabric.node: fabric for fabric in self.fabrics}

    def link(self, src: str, dst: str) -> Link | None:
        """The direct link from `src` to `dst`: an explicit one, else its fabric's, else None."""
        explicit = self._explicit.get((src, dst))
        if explicit is not None or src == dst:
            return explicit
        node = self.device(src).node
        fabric = self._fabric_of.get(node if node == self.device(dst).node else None)
        if fabric is None:
            return None
        return Link(src, dst, fabric.bandwidth, fabric.latency, fabric.exclusive)

    def path(self, src: str, dst: str, nbytes: float) -> tuple[Link, ...]:
        """The hops that move `nbytes` bytes from `src` to `dst`; empty if they are the same.

        Raises
        ------
        PlatformError
            If no path of links leads there.
        """
        if src == dst:
            return ()
        key = (src, dst, nbytes)
        if key not in self._paths:
            direct = self.link(src, dst)
            self._paths[key] = (direct,) if direct else self._cheapest_path(src, dst, nbytes)
        return self._paths[key]

    def copy_seconds(self, src: str, dst: str, nbytes: float) -> float:
        """Time that `nbytes` take from `src` to `dst` with nothing in their way, s."""
        return math.fsum(link.seconds(nbytes) for link in self.path(src, dst, nbytes))

    def connected(self, src: str, dst: str) -> bool:
        """Whether a path of links leads from `src` to `dst`."""
        try:
            self.path(src, dst, 1.0)
        except PlatformError:
            return False
        return True

    def _cheapest_path(self, src: str, dst: str, nbytes: float) -> tuple[Link, ...]:
        """Dijkstra's algorithm on (time, hops, positions of the devices on the way)."""
        heap: list[tuple[float, int, tuple[int, ...]]] = [(0.0, 0, (self.index[src],))]
        settled: set[int] = set()
        while heap:
            seconds, hops, way = heapq.heappop(heap)
            here = way[-1]
            if here in settled:
                continue
            settled.add(here)
            if self.names[here] == dst:
                return self._links_along(way)
            for there, link in self._links_of(here):
                if there not in settled:
                    heapq.heappush(heap, (seconds + link.seconds(nbytes), hops + 1, (*way, there)))
        raise PlatformError(
            f"platform {self.name!r}: no path of links leads from {src!r} to {dst!r}; "
            "add a link, a fabric or a network"
        )

    def _links_of(self, device: int) -> list[tuple[int, Link]]:
        """The devices that a device has links to, and these links."""
        if device not in self._outward:
            links = ((there, self.link(self.names[device], name))
                     for there, name in enumerate(self.names))  # fmt: skip
            self._outward[device] = [(there, link) for there, link in links if link is not None]
        return self._outward[device]

    def _links_along(self, way: Iterable[int]) -> tuple[Link, ...]:
        names = [self.names[i] for i in way]
        links = (self.link(a, b) for a, b in pairwise(names))
        return tuple(link for link in links if link is not None)


def _check_devices(devices: tuple[Device, ...]) -> None:
    if not devices:
        raise PlatformError("the platform has no devices; expected at least one")
    seen: set[str] = set()
    for device in devices:
        if device.name in seen:
            raise PlatformError(f"device {device.name!r} is given twice")
        seen.add(device.name)
        if not 1 <= device.interference < math.inf:
            raise PlatformError(
                f"device {device.name!r} has interference {device.interference!r}; expected a "
                "factor of at least 1: while others compute it is slower, not faster"
            )
        if device.private and device.kind not in HOST_KINDS:
            raise PlatformError(
                f"device {device.name!r} is private, and of kind {device.kind}; only a CPU device "
                "(kind llvm) may be: every other has a memory of its own anyway"
            )
    _check_boards(devices)


def _check_boards(devices: tuple[Device, ...]) -> None:
    """Refuse what a device that is reached by RPC cannot be."""
    owners: dict[str, str] = {}
    for device in devices:
        if device.rpc is None:
            continue
        board = f"device {device.name!r} is reached by RPC"
        if device.target is None:
            raise PlatformError(
                f"{board}, but nothing says what to compile for it; give it a target such as "
                "{kind: llvm, mtriple: aarch64-linux-gnu, mcpu: cortex-a72}"
            )
        if device.cores:
            raise PlatformError(
                f"{board}: its cores are not this machine's; leave 'cores' out, and say "
                "num-cores in its target"
            )
        if device.overlap or device.private:
            raise PlatformError(
                f"{board}: it has a memory of its own anyway, and is busy while tensors are moved; "
                "leave 'private' and 'overlap' out"
            )
        if device.rpc.server is not None:
            other = owners.setdefault(device.rpc.server, device.name)
            if other != device.name:
                raise PlatformError(
                    f"devices {other!r} and {device.name!r} are one {device.rpc.text}, which has "
                    "one client at a time; start a server for each, or use a tracker"
                )


def check_cores(platform: Platform) -> None:
    """Refuse devices that compute on one core, unless the platform says ``shared_cores: true``.

    Raises
    ------
    PlatformError
        Naming the first such core and its two devices.
    """
    owners: dict[tuple[str, int], str] = {}
    for device in () if platform.shared_cores else platform.devices:
        for core in device.cores:
            other = owners.setdefault((device.node, core), device.name)
            if other != device.name:
                raise PlatformError(
                    f"devices {other!r} and {device.name!r} share core {core}, so each of them is "
                    "slower than its costs say; give each its own cores, or write "
                    "'shared_cores: true' into the platform"
                )


def _check_links(platform: Platform) -> None:
    seen: set[tuple[str, str]] = set()
    for link in platform.links:
        platform.device(link.src)
        platform.device(link.dst)
        if link.src == link.dst:
            raise PlatformError(f"a link joins device {link.src!r} to itself; leave it out")
        if (link.src, link.dst) in seen:
            raise PlatformError(f"link {link.src!r} -> {link.dst!r} is given twice")
        seen.add((link.src, link.dst))
    nodes = {device.node for device in platform.devices}
    given: set[str | None] = set()
    for fabric in platform.fabrics:
        what = "the network" if fabric.node is None else f"fabric of node {fabric.node!r}"
        if fabric.node in given:
            raise PlatformError(f"{what} is given twice")
        given.add(fabric.node)
        if fabric.node is not None and fabric.node not in nodes:
            raise PlatformError(f"{what}: no device is there{nearest(fabric.node, nodes)}")
