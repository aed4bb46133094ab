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
from dataclasses import dataclass

from tvm_hetero.errors import FormatError
from tvm_hetero.util.documents import check_format, read_document
from tvm_hetero.util.fields import Fields
from tvm_hetero.util.quote import quote
from tvm_hetero.util.units import parse_rate, parse_seconds
from tvm_hetero.util.untrusted_names import printable

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
    row = Fields(data, where, ["format", "nodes"], ["address", "network", "silence"])
    address = row.text("address", LOCAL)
    if not address:
        row.refuse("address", "local, auto or HOST:PORT")
    nodes = row.rows("nodes", _node, "node")
    if not nodes:
        row.refuse("nodes", "a list of at least one")
    _check_nodes(nodes, address, where)
    network = _network(row) if row.has("network") else None
    silence = row.quantity("silence", parse_seconds) if row.has("silence") else None
    if silence == 0:
        row.refuse("silence", "more than 0")
    return Description(address, nodes, network, silence)


def _node(data: object, where: str) -> NodeRow:
    row = Fields(data, where, ["name"], ["cores", "host"])
    name = row.name("name")
    if not _NAME.fullmatch(name):
        row.refuse("name", "only letters, digits, _ and -")
    row.where = f"{where} ({printable(name)})"
    host = row.text("host") if row.has("host") else None
    return NodeRow(name, row.integers("cores", (), least=0, distinct=True), host)


def _check_nodes(nodes: tuple[NodeRow, ...], address: str, where: str) -> None:
    names: set[str] = set()
    owner: dict[tuple[str | None, int], str] = {}
    for node in nodes:
        if node.name in names:
            raise FormatError(f"{where}: node {quote(node.name)} is given twice")
        names.add(node.name)
        if address == LOCAL and node.host is not None:
            raise FormatError(
                f"{where}: node {quote(node.name)} has a host, but address: local is this machine; "
                "leave the host out, or give the address of a Ray that runs (auto or HOST:PORT)"
            )
        for core in node.cores:
            other = owner.setdefault((node.host, core), node.name)
            if other != node.name:
                nodes_and_core = f"{quote(other)} and {quote(node.name)} share core {quote(core)}"
                raise FormatError(
                    f"{where}: nodes {nodes_and_core}; each would slow the other: give each its "
                    "own cores"
                )


def _network(description: Fields) -> tuple[float, float]:
    row = description.fields("network", ["bandwidth", "latency"])
    bandwidth = row.quantity("bandwidth", parse_rate)
    if bandwidth == 0:
        row.refuse("bandwidth", "more than 0")
    return bandwidth, row.quantity("latency", parse_seconds)
