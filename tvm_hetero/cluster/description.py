"""The cluster file (``tvm-hetero/cluster/1``): which machines take part, and with what.

```yaml
format: tvm-hetero/cluster/1
address: local              # processes of this machine; auto or HOST:PORT: a Ray that runs
nodes:
  - {name: left, cores: [0]}                 # cores: those that its process may use; all without
  - {name: right, cores: [1], host: 10.0.0.7}    # host: address or name of the machine in Ray
network: {bandwidth: 1.2GB/s, latency: 200us}    # between nodes; measured where it is left out
silence: 5s                 # after which a node that does not answer is lost
```
Without a file, ``auto`` is every machine of the Ray that runs, each one a node.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tvm_hetero.errors import FormatError
from tvm_hetero.util.documents import check_format, check_keys, read_document
from tvm_hetero.util.units import parse_rate, parse_seconds

FORMAT = "tvm-hetero/cluster/1"
LOCAL, AUTO = "local", "auto"
_NAME = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True)
class NodeRow:
    """A node: its name in platforms, its cores (none: all), its machine in Ray (None: any)."""

    name: str
    cores: tuple[int, ...] = ()
    host: str | None = None


@dataclass(frozen=True)
class Description:
    """What a cluster file says. No `nodes`: every machine of the Ray at `address`.

    `network` is bandwidth (bytes/s) and latency (s) between nodes, `silence` the seconds after
    which a node that does not answer is lost; None where they are left open.
    """

    address: str = AUTO
    nodes: tuple[NodeRow, ...] = ()
    network: tuple[float, float] | None = None
    silence: float | None = None


def read_description(where: str | os.PathLike[str]) -> Description:
    """What ``--cluster`` names: ``auto``, or a file.

    Raises
    ------
    FormatError
        If the file cannot be read or is malformed.
    """
    if str(where) == AUTO:
        return Description()
    return description_from_dict(read_document(where), str(where))


def description_from_dict(data: object, where: str = "cluster") -> Description:
    """Make a description of a parsed document."""
    check_format(data, FORMAT, where)
    mapping = check_keys(data, where, ["format", "nodes"], ["address", "network", "silence"])
    address = mapping.get("address", LOCAL)
    if not isinstance(address, str) or not address:
        raise FormatError(f"{where}: address: expected local, auto or HOST:PORT, got {address!r}")
    rows = mapping["nodes"]
    if not isinstance(rows, list) or not rows:
        raise FormatError(f"{where}: nodes: expected a list of at least one, got {rows!r:.80}")
    nodes = tuple(_node(row, f"{where}: node {i}") for i, row in enumerate(rows))
    _check_nodes(nodes, address, where)
    network = _network(mapping.get("network"), f"{where}: network")
    return Description(address, nodes, network, _silence(mapping.get("silence"), where))


def _node(data: object, where: str) -> NodeRow:
    row = check_keys(data, where, ["name"], ["cores", "host"])
    name, cores, host = row["name"], row.get("cores", []), row.get("host")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise FormatError(f"{where}: name {name!r:.80}: expected only letters, digits, _ and -")
    whole = isinstance(cores, list) and all(type(core) is int and core >= 0 for core in cores)
    if not whole or len(set(cores)) < len(cores):
        raise FormatError(f"{where} ({name}): cores: expected a list such as [0, 1], got {cores!r}")
    if host is not None and not isinstance(host, str):
        raise FormatError(f"{where} ({name}): host: expected an address or name, got {host!r}")
    return NodeRow(name, tuple(cores), host)


def _check_nodes(nodes: tuple[NodeRow, ...], address: str, where: str) -> None:
    names: set[str] = set()
    owner: dict[tuple[str | None, int], str] = {}
    for node in nodes:
        if node.name in names:
            raise FormatError(f"{where}: node {node.name!r} is given twice")
        names.add(node.name)
        if address == LOCAL and node.host is not None:
            raise FormatError(
                f"{where}: node {node.name!r} has a host, but address: local is this machine; "
                "leave the host out, or give the address of a Ray that runs (auto or HOST:PORT)"
            )
        for core in node.cores:
            other = owner.setdefault((node.host, core), node.name)
            if other != node.name:
                raise FormatError(
                    f"{where}: nodes {other!r} and {node.name!r} share core {core}; each would "
                    "slow the other: give each its own cores"
                )


def _network(data: object, where: str) -> tuple[float, float] | None:
    if data is None:
        return None
    row: Mapping[str, Any] = check_keys(data, where, ["bandwidth", "latency"])
    bandwidth = parse_rate(row["bandwidth"], f"{where}: bandwidth")
    if bandwidth == 0:
        raise FormatError(f"{where}: bandwidth: expected more than 0")
    return bandwidth, parse_seconds(row["latency"], f"{where}: latency")


def _silence(data: object, where: str) -> float | None:
    if data is None:
        return None
    seconds = parse_seconds(data, f"{where}: silence")
    if seconds == 0:
        raise FormatError(f"{where}: silence: expected more than 0")
    return seconds
