"""Where a device is that only speaks TVM's RPC: a board with TVM's runtime and no more.

Its server (``python -m tvm.exec.rpc_server``) is named by its own address, or by a tracker and the
key under which it is registered there; of several boards with one key the tracker lends whichever
is free. A server has one client at a time: who comes second waits.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

from tvm_hetero.errors import FormatError
from tvm_hetero.util.documents import check_keys
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
    row = check_keys(data, where, [], ["server", "tracker", "key", "timeout"])
    if ("server" in row) == ("tracker" in row):
        raise FormatError(
            f'{where}: expected either server: "host:9090", or tracker: "host:9190" with a key, '
            f"got {dict(row)!r:.80}"
        )
    key = row.get("key", "")
    # The key is a word of the protocol's first line.
    if not isinstance(key, str) or any(c.isspace() for c in key) or len(key) > 100:
        raise FormatError(f"{where}: key: expected a word, got {key!r:.80}")
    if "tracker" in row and not key:
        raise FormatError(f"{where}: a tracker lends boards by their key; add key: NAME")
    timeout = parse_seconds(row.get("timeout", PATIENCE), f"{where}: timeout")
    if not 0 < timeout < math.inf:
        raise FormatError(f"{where}: timeout: expected more than 0 s, got {row['timeout']!r}")
    return Remote(
        server=_address(row.get("server"), f"{where}: server"),
        tracker=_address(row.get("tracker"), f"{where}: tracker"),
        key=key,
        timeout=timeout,
    )


def remote_row(remote: Remote) -> dict[str, Any]:
    """What `parse_remote` reads as `remote`."""
    row: dict[str, Any] = {}
    for key in ("server", "tracker", "key"):
        if getattr(remote, key):
            row[key] = getattr(remote, key)
    if remote.timeout != PATIENCE:
        row["timeout"] = float(remote.timeout)
    return row


def _address(data: object, where: str) -> str | None:
    if data is None:
        return None
    match = _ADDRESS.fullmatch(data) if isinstance(data, str) else None
    if match is None or not 0 < int(match["port"]) < 1 << 16:
        raise FormatError(f'{where}: expected an address such as "10.0.0.7:9090", got {data!r:.80}')
    return str(data)
