"""Platforms: the devices of one or several machines, and the links between them.

A platform is a directed graph of devices. Moving a tensor takes the direct link if there is one,
else the cheapest path of links *for the bytes that are moved*, hop by hop (store and forward).
Among paths of equal time the one with fewer hops wins, then the one whose device names come
first in the platform, so that the path is the same on every machine.

What it is made of is in `tvm_hetero.platform.devices`, its format in `tvm_hetero.platform.format`,
and finding out what this machine is in `tvm_hetero.platform.discovery`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

from tvm_hetero.errors import PlatformError
from tvm_hetero.platform.devices import Device, Fabric, Link, check_devices
from tvm_hetero.platform.discovery import detect_devices
from tvm_hetero.platform.format import (
    PlatformFields,
    parse_platform,
    platform_document,
    save_document,
)
from tvm_hetero.platform.frequency_levels import link_levels
from tvm_hetero.platform.path_search import PathFinder
from tvm_hetero.platform.teams import (
    NodeCore,
    check_team_memory,
    devices_on_cores,
    disjoint_families,
    list_cliques,
    shared_memories,
)
from tvm_hetero.util.documents import read_document
from tvm_hetero.util.nearest import nearest
from tvm_hetero.util.quote import quote


@dataclass(frozen=True)
class Platform:
    """Devices and links: `links` (and those between levels of a device), and regular `fabrics`.

    Devices of one node that have a core in common are *teams*: they exclude each other in time
    (see `tvm_hetero.platform.teams`), unless `shared_cores` says that they may compute at once,
    each slower than its costs say.

    Raises
    ------
    PlatformError
        When it is made: no devices, a repeated name or link, a link or fabric to nowhere, a
        private device that is no CPU, memory limits of teams of one node that differ.
    """

    devices: tuple[Device, ...]
    links: tuple[Link, ...] = ()
    fabrics: tuple[Fabric, ...] = ()
    name: str = "platform"
    shared_cores: bool = False
    _paths: dict[tuple[str, str, float], tuple[Link, ...]] = field(
        default_factory=dict, init=False, repr=False, compare=False, hash=False
    )
    _outward: dict[int, dict[int, tuple[float, float]]] = field(
        default_factory=dict, init=False, repr=False, compare=False, hash=False
    )

    def __post_init__(self) -> None:
        check_devices(self.devices, self.shared_cores)
        object.__setattr__(self, "links", link_levels(self.links, self.devices))
        _check_links(self)
        check_team_memory(self.devices, self.shared_memories)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Platform:
        """Read a platform file (YAML or JSON, format ``tvm-hetero/platform/1``).

        Raises
        ------
        FormatError
            If the file cannot be read or says something unknown or of the wrong kind.
        PlatformError
            If devices and links do not fit together.
        """
        return cls.from_dict(read_document(path), str(path))

    @classmethod
    def from_dict(cls, data: object, where: str = "platform") -> Platform:
        """Make a platform of a parsed document (see `load`)."""
        return cls(*parse_platform(data, where))

    @classmethod
    def detect(
        cls,
        devices: int | None = None,
        mcpus: Sequence[str | None] = (),
        *,
        cores: Iterable[int] | None = None,
        root: str | os.PathLike[str] = "/",
        nvidia_smi: str = "nvidia-smi",
        teams: str = "none",
    ) -> Platform:
        """Describe this machine; the parameters are those of `discovery.detect_devices`."""
        found = detect_devices(
            devices, mcpus, cores=cores, root=root, nvidia_smi=nvidia_smi, teams=teams
        )
        return cls(devices=found, name="this-machine")

    def to_dict(self) -> dict[str, Any]:
        """The document of this platform; values that are the default are left out."""
        parts = (self.devices, self.links, self.fabrics, self.name, self.shared_cores)
        return platform_document(PlatformFields(*parts))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write this platform as YAML if `path` ends in ``.yaml`` or ``.yml``, else as JSON."""
        save_document(self.to_dict(), path)

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
                f"platform {quote(self.name)} has no device {quote(name)}"
                f"{nearest(name, self.index)}"
            )
        return self.devices[self.index[name]]

    @cached_property
    def cores(self) -> dict[NodeCore, tuple[int, ...]]:
        """For every core, (node, number), the positions of the devices that occupy it."""
        return devices_on_cores(self.devices)

    @cached_property
    def cliques(self) -> tuple[tuple[int, ...], ...]:
        """Maximal sets of devices, by position, that exclude each other over a common core."""
        return () if self.shared_cores else list_cliques(self.devices)

    @cached_property
    def families(self) -> tuple[tuple[int, ...], ...]:
        """Sets of devices, by position, that can all compute at once; without teams there is one.

        See `tvm_hetero.platform.teams.disjoint_families`.
        """
        return disjoint_families(self.devices, self.cliques)

    @cached_property
    def shared_memories(self) -> tuple[tuple[int, ...], ...]:
        """The devices, by position, of each memory with a limit that several see: teams of a node.

        Each is named by its first device.
        """
        return shared_memories(self.devices, self.cliques)

    @cached_property
    def memory_of(self) -> tuple[int, ...]:
        """For every device the one that names its memory: itself, but for teams of a node."""
        found = list(range(len(self.devices)))
        for row in self.shared_memories:
            for d in row:
                found[d] = row[0]
        return tuple(found)

    @cached_property
    def team_cores(self) -> dict[str, tuple[NodeCore, ...]]:
        """For every device that shares some core, all of its cores; the others are not in it."""
        shared = {d for clique in self.cliques for d in clique}
        rows = ((self.devices[d].node, self.devices[d].cores) for d in sorted(shared))
        found = [tuple((node, core) for core in cores) for node, cores in rows]
        return dict(zip((self.names[d] for d in sorted(shared)), found, strict=True))

    def rivals(self, name: str) -> tuple[str, ...]:
        """The devices that never compute while this one does, in the order of the platform."""
        here = self.index[self.device(name).name]
        rows = [clique for clique in self.cliques if here in clique]
        return tuple(self.names[d] for d in sorted({d for row in rows for d in row} - {here}))

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
        """The path by (time, hops, positions of the devices on the way), see `path_search`."""
        way = self._finder.way(self.index[src], self.index[dst], nbytes)
        if way is not None:
            return self._links_along(way)
        raise PlatformError(
            f"platform {quote(self.name)}: no path of links leads from {quote(src)} to "
            f"{quote(dst)}; add a link, a fabric or a network"
        )

    @cached_property
    def _finder(self) -> PathFinder:
        return PathFinder(self.links_from, len(self.devices))

    def links_from(self, device: int) -> Mapping[int, tuple[float, float]]:
        """The devices that the device there has links to: latency (s) and bandwidth (bytes/s)."""
        if device not in self._outward:
            self._outward[device] = dict(self._new_links_from(device))
        return self._outward[device]

    def _new_links_from(self, device: int) -> Iterator[tuple[int, tuple[float, float]]]:
        """As `link` says of every two, without an object for each: of hundreds there are many."""
        src, explicit = self.devices[device], self._explicit
        inside, between = self._fabric_of.get(src.node), self._fabric_of.get(None)
        for there, dst in enumerate(self.devices):
            link = explicit.get((src.name, dst.name))
            fabric = inside if dst.node == src.node else between
            if link is not None:
                yield there, (link.latency, link.bandwidth)
            elif fabric is not None and there != device:
                yield there, (fabric.latency, fabric.bandwidth)

    def _links_along(self, way: Iterable[int]) -> tuple[Link, ...]:
        names = [self.names[i] for i in way]
        links = (self.link(a, b) for a, b in pairwise(names))
        return tuple(link for link in links if link is not None)


def _check_links(platform: Platform) -> None:
    seen: set[tuple[str, str]] = set()
    for link in platform.links:
        platform.device(link.src)
        platform.device(link.dst)
        if link.src == link.dst:
            raise PlatformError(f"a link joins device {quote(link.src)} to itself; leave it out")
        if (link.src, link.dst) in seen:
            raise PlatformError(f"link {quote(link.src)} -> {quote(link.dst)} is given twice")
        seen.add((link.src, link.dst))
    nodes = {device.node for device in platform.devices}
    given: set[str | None] = set()
    for fabric in platform.fabrics:
        what = "the network" if fabric.node is None else f"fabric of node {quote(fabric.node)}"
        if fabric.node in given:
            raise PlatformError(f"{what} is given twice")
        given.add(fabric.node)
        if fabric.node is not None and fabric.node not in nodes:
            raise PlatformError(f"{what}: no device is there{nearest(fabric.node, nodes)}")
