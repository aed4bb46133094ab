"""The ``tvm-hetero/platform/1`` format: YAML or JSON to devices and links, and back.

Units are accepted in text (``8GiB``, ``20GB/s``, ``5us``) and written as plain numbers, so that
what is read again is exactly what was written.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import yaml

from tvm_hetero.errors import FormatError
from tvm_hetero.platform.arithmetic_units import parse_units, units_row
from tvm_hetero.platform.devices import NAME, Device, Fabric, Link
from tvm_hetero.platform.frequency_levels import (
    expand_levels,
    expand_links,
    give_cores,
    parse_levels,
)
from tvm_hetero.platform.rpc_endpoint import parse_remote, remote_row
from tvm_hetero.util.documents import (
    canonical_json,
    check_format,
    is_yaml,
    write_atomic,
)
from tvm_hetero.util.fields import Fields
from tvm_hetero.util.quote import quote
from tvm_hetero.util.units import parse_bytes, parse_quantity, parse_rate, parse_seconds
from tvm_hetero.util.untrusted_names import printable

FORMAT = "tvm-hetero/platform/1"
_QUANTITIES: dict[str, Callable[[object, str], float]] = {
    "memory": parse_bytes,
    "peak_flops": parse_quantity,
    "bandwidth": parse_rate,
    "launch": parse_seconds,
    "watts": parse_quantity,
    "idle_watts": parse_quantity,
    "price": parse_quantity,
    "interference": parse_quantity,
}
# Left out where they say nothing: the only quantities that are never None.
_NEUTRAL = {"idle_watts": 0.0, "interference": 1.0}


class PlatformFields(NamedTuple):
    """What a platform's document says; whether it fits together is `Platform`'s to see."""

    devices: tuple[Device, ...]
    links: tuple[Link, ...]
    fabrics: tuple[Fabric, ...]
    name: str
    shared_cores: bool


def parse_platform(data: object, where: str) -> PlatformFields:
    """Read a parsed document.

    Raises
    ------
    FormatError
        If it says something unknown or of the wrong kind.
    """
    check_format(data, FORMAT, where)
    row = Fields(data, where, ["format", "devices"], ["name", "links", "shared_cores"])
    links = [link for links in row.rows("links", _parse_row, "link", []) for link in links]
    levels = row.rows("devices", _parse_device, "device")
    _check_base_names(row, levels)
    devices = give_cores([device for _, each in levels for device in each])
    return PlatformFields(
        devices=devices,
        links=expand_links([link for link in links if isinstance(link, Link)], devices),
        fabrics=tuple(link for link in links if isinstance(link, Fabric)),
        name=row.name("name", "platform"),
        shared_cores=row.flag("shared_cores"),
    )


def platform_document(parts: PlatformFields) -> dict[str, Any]:
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


def _check_base_names(row: Fields, levels: Sequence[tuple[str | None, Sequence[Device]]]) -> None:
    """Refuse two rows with levels of one name, or one whose levels are written out besides."""
    rows = Counter(base or each[0].level_of for base, each in levels)
    for base, _ in levels:
        if base is not None and rows[base] > 1:
            raise FormatError(
                f"{row.at('devices')}: {rows[base]} rows have levels of {quote(base)}; expected "
                "all of them in one row, or all written out"
            )


def _parse_device(data: object, where: str) -> tuple[str | None, tuple[Device, ...]]:
    """A device, or one for each of its frequency levels, and its name if it has any."""
    own = ["node", "target", "cores", "overlap", "private", "rpc", "units", "levels", "level_of"]
    row = Fields(data, where, ["name"], [*own, *_QUANTITIES])
    name = _device_name(row, "name")
    row.where = f"{where} ({printable(name)})"
    quantities = {
        key: row.quantity(key, parse) for key, parse in _QUANTITIES.items() if row.has(key)
    }
    device = Device(
        name=name,
        node=row.name("node", "node0"),
        target=_parse_target(row) if row.has("target") else None,
        cores=row.integers("cores", (), least=0, distinct=True),
        overlap=row.flag("overlap"),
        private=row.flag("private"),
        rpc=parse_remote(row.data.get("rpc"), row.at("rpc")),
        units=parse_units(row),
        level_of=_device_name(row, "level_of") if row.has("level_of") else None,
        **quantities,  # type: ignore[arg-type]
    )
    levels = parse_levels(row)
    return (name if levels else None), expand_levels(device, levels)


def _device_name(row: Fields, key: str) -> str:
    name = row.name(key)
    if not NAME.fullmatch(name):
        row.refuse(key, "only letters, digits and _ . -")
    return name


def _parse_target(device: Fields) -> dict[str, Any]:
    """A TVM target: a mapping with a kind, or the bare name of a kind."""
    data = device.data["target"]
    target = {"kind": data} if isinstance(data, str) else data
    if not isinstance(target, Mapping) or not isinstance(target.get("kind"), str):
        device.refuse("target", "a mapping such as {kind: llvm, mcpu: x86-64-v3}")
    if not _plain(target, depth=4):
        device.refuse("target", "text, numbers, lists and mappings of them")
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


def _parse_row(data: object, where: str) -> list[Link | Fabric]:
    """One row of ``links``: a link (both ways if it says so), a fabric or the network."""
    figures = ["bandwidth", "latency", "exclusive"]
    if isinstance(data, Mapping) and "fabric" in data:
        row = Fields(data, where, ["fabric"]).fields("fabric", ["node"], figures)
        return [Fabric(row.name("node"), *_figures(row))]
    if isinstance(data, Mapping) and "network" in data:
        row = Fields(data, where, ["network"], figures)
        if row.data["network"] is not True:
            row.refuse("network", "true")
        return [Fabric(None, *_figures(row))]
    row = Fields(data, where, ["from", "to"], [*figures, "cold_bandwidth", "both"])
    src, dst = row.name("from"), row.name("to")
    there = Link(src, dst, *_figures(row), _rate(row, "cold_bandwidth", "key"))
    return [there, replace(there, src=dst, dst=src)] if row.flag("both") else [there]


def _figures(row: Fields) -> tuple[float, float, bool]:
    """Bandwidth (infinite if absent), latency and exclusiveness of a link."""
    bandwidth = _rate(row, "bandwidth", "link")
    latency = row.quantity("latency", parse_seconds, 0.0)
    return math.inf if bandwidth is None else bandwidth, latency, row.flag("exclusive")


def _rate(row: Fields, key: str, spare: str) -> float | None:
    """A rate of a link, None if absent; `spare` is what to leave out instead of a rate of 0."""
    if not row.has(key):
        return None
    rate = row.quantity(key, parse_rate)
    if rate == 0:
        raise FormatError(f"{row.at(key)}: expected more than 0; leave the {spare} out")
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
    if device.level_of is not None:
        row["level_of"] = device.level_of
    if device.units is not None:
        row["units"] = units_row(device.units)
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
