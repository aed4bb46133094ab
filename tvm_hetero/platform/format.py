"""The ``tvm-hetero/platform/1`` format: YAML or JSON to devices and links, and back.

Units are accepted in text (``8GiB``, ``20GB/s``, ``5us``) and written as plain numbers, so that
what is read again is exactly what was written.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import yaml

from tvm_hetero.errors import FormatError
from tvm_hetero.platform.devices import Device, Fabric, Link
from tvm_hetero.platform.rpc_endpoint import parse_remote, remote_row
from tvm_hetero.util.documents import (
    canonical_json,
    check_format,
    check_keys,
    is_yaml,
    write_atomic,
)
from tvm_hetero.util.units import parse_bytes, parse_number, parse_rate, parse_seconds

FORMAT = "tvm-hetero/platform/1"
_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_QUANTITIES: dict[str, Callable[[object, str], float]] = {
    "memory": parse_bytes,
    "peak_flops": parse_number,
    "bandwidth": parse_rate,
    "launch": parse_seconds,
    "watts": parse_number,
    "idle_watts": parse_number,
    "price": parse_number,
    "interference": parse_number,
}
# Left out where they say nothing: the only quantities that are never None.
_NEUTRAL = {"idle_watts": 0.0, "interference": 1.0}


class Parts(NamedTuple):
    """What a platform's document says; whether it fits together is `Platform`'s to see."""

    devices: tuple[Device, ...]
    links: tuple[Link, ...]
    fabrics: tuple[Fabric, ...]
    name: str
    shared_cores: bool


def parse_platform(data: object, where: str) -> Parts:
    """Read a parsed document.

    Raises
    ------
    FormatError
        If it says something unknown or of the wrong kind.
    """
    check_format(data, FORMAT, where)
    mapping = check_keys(data, where, ["format", "devices"], ["name", "links", "shared_cores"])
    devices = _rows(mapping["devices"], f"{where}: devices")
    links = _rows(mapping.get("links", []), f"{where}: links")
    parsed = [_parse_row(row, f"{where}: link {i}") for i, row in enumerate(links)]
    return Parts(
        devices=tuple(_parse_device(d, f"{where}: device {i}") for i, d in enumerate(devices)),
        links=tuple(link for row in parsed for link in row if isinstance(link, Link)),
        fabrics=tuple(fabric for row in parsed for fabric in row if isinstance(fabric, Fabric)),
        name=_text(mapping.get("name", "platform"), f"{where}: name"),
        shared_cores=_flag(mapping.get("shared_cores", False), f"{where}: shared_cores"),
    )


def platform_document(parts: Parts) -> dict[str, Any]:
    """The document that `parse_platform` reads; values that are the default are left out."""
    document: dict[str, Any] = {"format": FORMAT, "name": parts.name}
    if parts.shared_cores:
        document["shared_cores"] = True
    document["devices"] = [_device_row(device) for device in parts.devices]
    rows = [_link_row({"from": k.src, "to": k.dst}, k) for k in parts.links]
    for fabric in parts.fabrics:
        if fabric.node is None:
            rows.append(_link_row({"network": True}, fabric))
        else:
            rows.append({"fabric": _link_row({"node": fabric.node}, fabric)})
    if rows:
        document["links"] = rows
    return document


def save_document(document: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Write a document as YAML if `path` ends in ``.yaml`` or ``.yml``, else as JSON."""
    if is_yaml(path):
        # ASCII only: with allow_unicode PyYAML writes U+0085 in a form that it reads as a space.
        write_atomic(path, yaml.safe_dump(document, sort_keys=False))
    else:
        write_atomic(path, canonical_json(document) + "\n")


def _parse_device(data: object, where: str) -> Device:
    row = check_keys(
        data,
        where,
        ["name"],
        ["node", "target", "cores", "overlap", "private", "rpc", *_QUANTITIES],
    )
    name = _text(row["name"], f"{where}: name")
    if not _NAME.fullmatch(name):
        raise FormatError(f"{where}: name {name!r}: expected only letters, digits and _ . -")
    where = f"{where} ({name})"
    quantities = {
        key: parse(row[key], f"{where}: {key}")
        for key, parse in _QUANTITIES.items()
        if row.get(key) is not None
    }
    return Device(
        name=name,
        node=_text(row.get("node", "node0"), f"{where}: node"),
        target=_parse_target(row.get("target"), where),
        cores=_parse_cores(row.get("cores", []), where),
        overlap=_flag(row.get("overlap", False), f"{where}: overlap"),
        private=_flag(row.get("private", False), f"{where}: private"),
        rpc=parse_remote(row.get("rpc"), f"{where}: rpc"),
        **quantities,  # type: ignore[arg-type]
    )


def _parse_target(data: object, where: str) -> dict[str, Any] | None:
    """A TVM target: a mapping with a kind, or the bare name of a kind."""
    if data is None:
        return None
    target = {"kind": data} if isinstance(data, str) else data
    if not isinstance(target, Mapping) or not isinstance(target.get("kind"), str):
        raise FormatError(
            f"{where}: target: expected a mapping such as {{kind: llvm, mcpu: x86-64-v3}}, "
            f"got {data!r:.80}"
        )
    if not _plain(target, depth=4):
        raise FormatError(
            f"{where}: target: expected text, numbers, lists and mappings of them, got {data!r:.80}"
        )
    return dict(target)


def _plain(data: object, depth: int) -> bool:
    """Whether a value of a target can be written as JSON: finite, and not nested without end.

    YAML can say more (dates, infinities, values that contain themselves).
    """
    if isinstance(data, Mapping):
        return depth > 0 and all(
            isinstance(key, str) and _plain(value, depth - 1) for key, value in data.items()
        )
    if isinstance(data, list):
        return depth > 0 and all(_plain(value, depth - 1) for value in data)
    return isinstance(data, str | int) or (isinstance(data, float) and math.isfinite(data))


def _parse_cores(data: object, where: str) -> tuple[int, ...]:
    valid = isinstance(data, list) and all(type(c) is int and c >= 0 for c in data)
    if not isinstance(data, list) or not valid or len(set(data)) < len(data):
        raise FormatError(f"{where}: cores: expected a list such as [0, 1], got {data!r}")
    return tuple(data)


def _parse_row(data: object, where: str) -> list[Link | Fabric]:
    """One row of ``links``: a link (both ways if it says so), a fabric or the network."""
    if not isinstance(data, Mapping):
        raise FormatError(f"{where}: expected a mapping, got {data!r:.80}")
    figures = ["bandwidth", "latency", "exclusive"]
    if "fabric" in data:
        row = check_keys(data, where, ["fabric"])
        inner = check_keys(row["fabric"], f"{where}: fabric", ["node"], figures)
        return [Fabric(_text(inner["node"], f"{where}: node"), *_figures(inner, where))]
    if "network" in data:
        row = check_keys(data, where, ["network"], figures)
        if row["network"] is not True:
            raise FormatError(f"{where}: network: expected true, got {row['network']!r}")
        return [Fabric(None, *_figures(row, where))]
    row = check_keys(data, where, ["from", "to"], [*figures, "cold_bandwidth", "both"])
    src, dst = _text(row["from"], f"{where}: from"), _text(row["to"], f"{where}: to")
    there = Link(src, dst, *_figures(row, where), _rate(row, "cold_bandwidth", "key", where))
    if _flag(row.get("both", False), f"{where}: both"):
        return [there, replace(there, src=dst, dst=src)]
    return [there]


def _figures(row: Mapping[str, Any], where: str) -> tuple[float, float, bool]:
    """Bandwidth (infinite if absent), latency and exclusiveness of a link."""
    bandwidth = _rate(row, "bandwidth", "link", where)
    latency = parse_seconds(row.get("latency", 0.0), f"{where}: latency")
    exclusive = _flag(row.get("exclusive", False), f"{where}: exclusive")
    return math.inf if bandwidth is None else bandwidth, latency, exclusive


def _rate(row: Mapping[str, Any], key: str, spare: str, where: str) -> float | None:
    """A rate of a link, None if absent; `spare` is what to leave out instead of a rate of 0."""
    if row.get(key) is None:
        return None
    rate = parse_rate(row[key], f"{where}: {key}")
    if rate == 0:
        raise FormatError(f"{where}: {key}: expected more than 0; leave the {spare} out")
    return rate


def _device_row(device: Device) -> dict[str, Any]:
    row: dict[str, Any] = {"name": device.name}
    if device.node != "node0":
        row["node"] = device.node
    if device.target is not None:
        row["target"] = dict(device.target)
    if device.cores:
        row["cores"] = list(device.cores)
    if device.overlap:
        row["overlap"] = True
    if device.private:
        row["private"] = True
    if device.rpc is not None:
        row["rpc"] = remote_row(device.rpc)
    for key in _QUANTITIES:
        value = getattr(device, key)
        if value is not None and value != _NEUTRAL.get(key):
            # As it is read back: 5 and 5.0 have another text and so another digest.
            row[key] = value if key == "memory" else float(value)
    return row


def _link_row(head: dict[str, Any], link: Link | Fabric) -> dict[str, Any]:
    row = dict(head)
    if math.isfinite(link.bandwidth):
        row["bandwidth"] = float(link.bandwidth)
    if link.latency:
        row["latency"] = float(link.latency)
    if link.exclusive:
        row["exclusive"] = True
    if isinstance(link, Link) and link.cold_bandwidth is not None:
        row["cold_bandwidth"] = float(link.cold_bandwidth)
    return row


def _rows(data: object, where: str) -> list[Any]:
    if not isinstance(data, list):
        raise FormatError(f"{where}: expected a list, got {data!r:.80}")
    return data


def _text(data: object, where: str) -> str:
    if not isinstance(data, str) or not data:
        raise FormatError(f"{where}: expected a name, got {data!r:.80}")
    return data


def _flag(data: object, where: str) -> bool:
    if not isinstance(data, bool):
        raise FormatError(f"{where}: expected true or false, got {data!r:.80}")
    return data
