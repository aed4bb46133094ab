"""A session with a board, for child processes: connected, libraries loaded there, and lost.

Calls over TVM's RPC have no time limit of their own and hold on to a connection that is gone, so
none is made in a process that must not hang: a child makes them, and whoever waits too long for
the child ends it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

# TVM's ThreadGroup::kBig: as many threads as are said, on the fastest cores.
_BIG = 1


class RpcDeviceSession:
    """A connection to a board.

    Attributes
    ----------
    device : what it computes on, as TVM names it on this side.

    Raises
    ------
    RuntimeError
        If the board cannot be reached, or speaks another version of the protocol.
    """

    def __init__(self, question: Mapping[str, Any]) -> None:
        self._session = _connect(question["remote"])
        kind, number = question["device"]
        self.device = self._session.device(kind, number)
        self._libraries = 0
        if question["threads"] > 1:
            self._session.get_function("runtime.config_threadpool")(_BIG, question["threads"])
        if not self.device.exist:
            name = type(self.device)._DEVICE_TYPE_TO_NAME.get(kind, kind)
            raise RuntimeError(f"the board has no {name} device that its TVM can use")

    def load(self, library: str) -> Any:
        """Send a library to the board and load it there."""
        self._libraries += 1
        name = f"{self._libraries}.{Path(library).name}"
        self._session.upload(library, name)
        return self._session.load_module(name)

    def alive(self) -> bool:
        """Whether the board answers. (After an error; where it hangs, so does this.)"""
        try:
            self.device.sync()
        except Exception:  # whatever TVM raises
            return False
        return True


def last_words(error: Exception) -> str:
    """The line of an error of TVM's that says what happened; above it is where, in C++."""
    lines = [line.strip() for line in str(error).strip().splitlines()]
    if not lines or not lines[-1]:
        return type(error).__name__
    # "Check failed: (sock.Connect(addr)) is false: Connect to ...": what was checked is no news.
    return lines[-1].rpartition(" is false: ")[2]


def _connect(remote: Mapping[str, Any]) -> Any:
    from tvm import rpc

    host, _, port = str(remote["server"] or remote["tracker"]).rpartition(":")
    host = host.strip("[]")
    if remote["server"] is not None:
        return rpc.connect(host, int(port), remote["key"])
    # A tracker answers when a board is free.
    return rpc.connect_tracker(host, int(port)).request(remote["key"], max_retry=1)
