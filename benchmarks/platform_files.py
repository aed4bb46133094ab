"""Make the files of real machines in platforms/ anew from tvm_hetero/zoo/hardware.py.

    python benchmarks/platform_files.py [--output FOLDER]

One file for each server (also those with memories that compute,
`tvm_hetero.zoo.processing_in_memory`), with the documents of its figures, and for each cluster of
`CLUSTERS`. Files of made-up systems (big-little, chiplets-*, phone, sched-*) are written by hand.
"""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tvm_hetero.platform import Device, Fabric, Link, Platform
from tvm_hetero.platform.arithmetic_units import units_row
from tvm_hetero.platform.format import FORMAT
from tvm_hetero.util.documents import write_atomic
from tvm_hetero.zoo.hardware import NETWORKS, SERVERS, machine, sources
from tvm_hetero.zoo.platforms import PRESETS, cluster
from tvm_hetero.zoo.processing_in_memory import PIM_SERVERS, pim_machine, pim_sources

WIDTH = 98
# The clusters that have files: servers of one kind, how many, and their network.
SERVER, NETWORK = "diviml", "ethernet-100"
CLUSTERS = {f"gpt3-{count}node": count for count in (4, 6, 16, 64)}


def main(argv: Sequence[str] | None = None) -> list[Path]:
    """Write every file; returns them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=PRESETS)
    folder = parser.parse_args(argv).output
    paths = []
    for name in [*SERVERS, *PIM_SERVERS, *CLUSTERS]:
        paths.append(folder / f"{name}.yaml")
        write_atomic(paths[-1], file_text(name))
    return paths


def file_text(name: str) -> str:
    """The file of a server or cluster."""
    if name in SERVERS:
        return platform_text(machine(name), [SERVERS[name].what, *sources(name)])
    if name in PIM_SERVERS:
        return platform_text(pim_machine(name), [PIM_SERVERS[name].what, *pim_sources(name)])
    count = CLUSTERS[name]
    head = [
        f"{count} servers of {SERVER}.yaml on {NETWORKS[NETWORK].source}: GPT-3 175B fits only all "
        "their memories together. DiviML's case study has six such servers (Y. Ghannane, M. "
        "Abdelfattah, arXiv 2308.00127); which network joins them is our assumption.",
        *sources(SERVER),
    ]
    return platform_text(cluster([(SERVER, count)], NETWORK, name), head)


def platform_text(platform: Platform, comments: Iterable[str]) -> str:
    """A platform as YAML for people: comments, two lines a device, one a link."""
    lines = [f"# {line}" for text in comments for line in _wrapped(text)]
    lines += [f"format: {FORMAT}", f"name: {platform.name}", "devices:"]
    for device in platform.devices:
        lines += _device(device)
    lines.append("links:" if platform.links or platform.fabrics else "links: []")
    links = list(platform.links)
    while links:
        link = links.pop(0)
        back = Link(link.dst, link.src, link.bandwidth, link.latency, link.exclusive)
        both = back in links
        if both:
            links.remove(back)
        lines.append(f"  - {_flow(_link(link, both))}")
    lines += [f"  - {_flow(_fabric(fabric))}" for fabric in platform.fabrics]
    return "\n".join(lines) + "\n"


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, subsequent_indent="  ", break_on_hyphens=False)


def _device(device: Device) -> list[str]:
    head: dict[str, Any] = {"name": device.name}
    if device.node != "node0":
        head["node"] = device.node
    if device.target is not None:
        head["target"] = device.target
    head["overlap"] = device.overlap
    figures = {
        "memory": None if device.memory is None else _size(device.memory),
        "peak_flops": device.peak_flops and f"{device.peak_flops / 1e12:.4}e+12",
        "bandwidth": device.bandwidth and _rate(device.bandwidth),
        "launch": device.launch and _micro(device.launch),
        "watts": device.watts,
        "idle_watts": device.idle_watts or None,
        "price": device.price,
    }
    given = {key: value for key, value in figures.items() if value is not None}
    lines = [f"  - {_flow(head)[:-1]},", f"     {_flow(given)[1:]}"]
    if device.units is not None:
        lines.insert(1, f"     units: {_flow(units_row(device.units))},")
    return lines


def _link(link: Link, both: bool) -> dict[str, Any]:
    ends: dict[str, Any] = {"from": link.src, "to": link.dst}
    return ends | _figures(link) | ({"both": True} if both else {})


def _fabric(fabric: Fabric) -> dict[str, Any]:
    if fabric.node is None:
        return {"network": True} | _figures(fabric)
    return {"fabric": {"node": fabric.node} | _figures(fabric)}


def _figures(link: Link | Fabric) -> dict[str, Any]:
    return {"bandwidth": _rate(link.bandwidth), "latency": _micro(link.latency)}


def _size(nbytes: int) -> str:
    for unit, size in (("TB", 10**12), ("GB", 10**9), ("GiB", 2**30)):
        if nbytes % size == 0:
            return f"{nbytes // size}{unit}"
    raise ValueError(f"{nbytes} bytes are no whole number of GB or GiB")


def _rate(rate: float) -> str:
    return f"{rate / 1e9:.10g}GB/s"


def _micro(seconds: float) -> str:
    return f"{seconds * 1e6:.10g}us"


def _flow(row: Mapping[str, Any]) -> str:
    """A mapping on one line, as YAML."""
    return "{" + ", ".join(f"{key}: {_value(value)}" for key, value in row.items()) + "}"


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    return _flow(value) if isinstance(value, Mapping) else f"{value}"


if __name__ == "__main__":
    main()
