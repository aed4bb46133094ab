"""Platforms of the zoo: presets from YAML files, and clusters made of copies of them.

A preset is a file (``platforms/*.yaml``) with the source of every figure; those of real machines
are made of `tvm_hetero.zoo.hardware`. A cluster is several machines joined by a network:
``h100x8:4+t4x4:2`` is four of the one kind and two of the other, ``diviml:6@ethernet-10`` says
which network. Some have names of their own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tvm_hetero.errors import UsageError
from tvm_hetero.platform.devices import Fabric
from tvm_hetero.platform.model import Platform
from tvm_hetero.util.nearest import nearest
from tvm_hetero.zoo.hardware import NETWORKS

PRESETS = Path(__file__).parent.parent / "platforms"
# More devices than this are not scheduled one by one; it also keeps a typing error cheap.
MAX_NODES = 1024
_PART = re.compile(r"(?P<node>[A-Za-z0-9_.-]+?)(?::(?P<count>[0-9]+))?")
_SERIAL = "-serial"
_GPUS = ("h100x8", "a100x8", "l4x4", "t4x4")


def cluster(
    nodes: Sequence[tuple[str, int]], network: str = "ethernet-100", name: str = ""
) -> Platform:
    """Machines joined by a network: ``cluster([("h100x8", 4), ("a100x8", 4)])``.

    Device d of machine number i is called ``n{i}.{d}`` and its node ``n{i}``.

    Raises
    ------
    UsageError
        If a machine or network is unknown, a preset is a cluster itself, or there are none or more
        than 1,024 machines.
    """
    if network not in NETWORKS:
        raise UsageError(f"network {network!r} is unknown{nearest(network, NETWORKS)}")
    kinds = [node for node, count in nodes for _ in range(count)]
    if not 1 <= len(kinds) <= MAX_NODES:
        raise UsageError(f"a cluster of {len(kinds)} machines: expected 1 to {MAX_NODES}")
    width = len(str(len(kinds) - 1))
    machines = [_rename(_machine(kind), f"n{i:0{width}}") for i, kind in enumerate(kinds)]
    figures = NETWORKS[network]
    wires = Fabric(None, figures.bandwidth, figures.latency)
    return Platform(
        devices=tuple(device for machine in machines for device in machine.devices),
        links=tuple(link for machine in machines for link in machine.links),
        fabrics=(*(fabric for machine in machines for fabric in machine.fabrics), wires),
        name=name or "+".join(f"{node}:{count}" for node, count in nodes),
    )


def serial(platform: Platform) -> Platform:
    """The same platform, whose devices do not compute while they send or receive."""
    devices = tuple(replace(device, overlap=False) for device in platform.devices)
    return Platform(devices, platform.links, platform.fabrics, platform.name + _SERIAL)


# Clusters with a name: machines and network.
CLUSTERS: Mapping[str, tuple[Sequence[tuple[str, int]], str]] = {
    # DiviML's case study has six servers; which network joins them is our assumption.
    "diviml-6": ([("diviml", 6)], "ethernet-100"),
    # A made-up cluster on which the case of many nodes was first measured.
    "sched-6": ([("sched-node", 6)], "ethernet-10"),
    "mixed-4": ([(kind, 1) for kind in _GPUS], "ethernet-100"),
    "mixed-16": ([(kind, 4) for kind in _GPUS], "ethernet-100"),
    "mixed-64": ([(kind, 16) for kind in _GPUS], "ethernet-100"),
    "hopper-8": ([("h100x8", 8)], "infiniband-ndr"),
}


def platform(name: str) -> Platform:
    """A platform by name: a preset, a cluster with a name, or ``preset:count+preset:count``.

    A cluster has 100 Gb/s Ethernet unless ``@network`` comes after it (see `NETWORKS`). ``-serial``
    at the end takes the devices' copy engines away.

    Raises
    ------
    UsageError
        If there is no such platform; the nearest name is suggested.
    """
    if name.endswith(_SERIAL) and name not in platform_names():
        return serial(platform(name.removesuffix(_SERIAL)))
    if name in CLUSTERS:
        nodes, network = CLUSTERS[name]
        return cluster(nodes, network, name)
    if any(mark in name for mark in ":+@"):
        machines, _, network = name.partition("@")
        return cluster(_parse_nodes(machines), network or "ethernet-100", name)
    return _preset(name)


def platform_names() -> tuple[str, ...]:
    """Names of all presets and of all clusters that have one."""
    return (*sorted(_preset_files()), *CLUSTERS)


def _parse_nodes(text: str) -> list[tuple[str, int]]:
    nodes = []
    for part in text.split("+"):
        match = _PART.fullmatch(part)
        if match is None or int(match["count"] or 1) > MAX_NODES:
            raise UsageError(f"platform {text!r}: expected machines such as h100x8:4+t4x4:2")
        nodes.append((match["node"], int(match["count"] or 1)))
    return nodes


def _machine(name: str) -> Platform:
    """A preset that is a single machine."""
    found = _preset(name)
    nodes = {device.node for device in found.devices}
    if len(nodes) > 1:
        raise UsageError(
            f"platform {name!r} is a cluster of {len(nodes)} machines; expected the name of one, "
            "such as diviml"
        )
    return found


def _preset(name: str) -> Platform:
    files = _preset_files()
    if name not in files:
        raise UsageError(f"platform {name!r} is unknown{nearest(name, platform_names())}")
    return Platform.load(files[name])


def _preset_files() -> dict[str, Path]:
    return {path.stem: path for path in PRESETS.glob("*.yaml")}


def _rename(machine: Platform, node: str) -> Platform:
    """The machine with `node` before the names of its devices and in place of its node."""
    names = {device.name: f"{node}.{device.name}" for device in machine.devices}
    return Platform(
        tuple(replace(d, name=names[d.name], node=node) for d in machine.devices),
        tuple(replace(k, src=names[k.src], dst=names[k.dst]) for k in machine.links),
        tuple(replace(fabric, node=node) for fabric in machine.fabrics),
    )
