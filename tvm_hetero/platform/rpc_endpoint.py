"""Where a device is that only speaks TVM's RPC: a board with TVM's runtime and no more.

Its server (``python -m tvm.exec.rpc_server``) is named by its own address, or by a tracker and the
key under which it is registered there; of several boards with one key the tracker lends whichever
is free. A server has one client at a time: who comes second waits.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from tvm_hetero.errors import FormatError
from tvm_hetero.util.fields import Fields, refuse
from tvm_hetero.util.units import parse_seconds

# How long a board may take for one thing that it is asked for, unless its platform says otherwise.
PATIENCE = 30.0
_ADDRESS = re.compile(r"(?P<host>[A-Za-z0-9_.:\[\]-]+):(?P<port>[0-9]{1,5})")


@dataclass(frozen=True)
class Remote:
    """How a board is reached.

    Attributes
    ----------
    server, tracker : ``host:port``, exactly one of them.
    key : under which the server is registered; a tracker needs it.
    timeout : s after which a board that does not answer is given up.
    """

    server: str | None = None
    tracker: str | None = None
    key: str = ""
    timeout: float = PATIENCE

    @property
    def text(self) -> str:
        """The place in words, without the timeout: what measured figures belong to."""
        if self.server is not None:
            return f"RPC server {self.server}" + (f" (key {self.key!r})" if self.key else "")
        return f"key {self.key!r} of RPC tracker {self.tracker}"

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the server, or of the tracker."""
        host, _, port = (self.server or self.tracker or "").rpartition(":")
        return host.strip("[]"), int(port)


def parse_remote(data: object, where: str) -> Remote | None:
    """Read ``rpc: {server: "host:9090"}`` or ``rpc: {tracker: "host:9190", key: rpi4}``.

    Raises
    ------
    FormatError
        If it says neither or both, or an address is none.
    """
    if data is None:
        return None
    row = Fields(data, where, [], ["server", "tracker", "key", "timeout"])
    if ("server" in row) == ("tracker" in row):
        either = 'either server: "host:9090", or tracker: "host:9190" with a key'
        refuse(data, where, either)
    key = row.text("key", "")
    # The key is a word of the protocol's first line.
    if any(c.isspace() for c in key) or len(key) > 100:
        row.refuse("key", "a word")
    if "tracker" in row and not key:
        raise FormatError(f"{where}: a tracker lends boards by their key; add key: NAME")
    timeout = row.quantity("timeout", parse_seconds, PATIENCE)
    if timeout == 0:
        row.refuse("timeout", "more than 0 s")
    return Remote(_address(row, "server"), _address(row, "tracker"), key, timeout)


def remote_row(remote: Remote) -> dict[str, Any]:
    """What `parse_remote` reads as `remote`."""
    row: dict[str, Any] = {}
    for key in ("server", "tracker", "key"):
        if getattr(remote, key):
            row[key] = getattr(remote, key)
    if remote.timeout != PATIENCE:
        row["timeout"] = float(remote.timeout)
    return row


def _address(row: Fields, key: str) -> str | None:
    if not row.has(key):
        return None
    address = row.data[key]
    match = _ADDRESS.fullmatch(address) if isinstance(address, str) else None
    if match is None or not 0 < int(match["port"]) < 1 << 16:
        row.refuse(key, 'an address such as "10.0.0.7:9090"')
    return str(address)
