"""Bells: a reader that sleeps is told that something was written, if the writer can reach it.

Ray's channels have no way to wait but to look at shared memory again and again: a thread that reads
one keeps a core busy, and a machine with a few of them has none left to compute on. So whoever
writes rings, and whoever reads looks once and sleeps.

A bell is a socket for datagrams in Linux's abstract name space: no file is left, processes of
other machines do not reach it, and whoever rings never waits. Each ring says how many messages have
been written so far. So a reader knows, whatever rings got lost (no one listened yet, the queue was
full),

    heard  > taken    that something is on its way to it, and to look again soon;
    heard <= taken    that it has all, and may sleep: the next message rings;
    heard nothing     that perhaps no one rings: to look again, less and less often.
"""

from __future__ import annotations

import socket
import uuid
from contextlib import suppress

# Seconds between two looks for a message that is on its way or does not ring: the first ones, the
# longest. They grow by a fifth, so that none comes later than by a sixth of what was waited.
_SHORTEST, _LONGEST, _GROWTH = 1e-4, 1e-2, 1.2
# Seconds after which a reader looks though it has all: for what no one thought of.
_ASLEEP = 0.1
_NUMBER_BYTES = 8


def new_name() -> str:
    """A name for a bell that no other one has."""
    return f"tvm_hetero-{uuid.uuid4().hex}"


class Rope:
    """The end of whoever writes."""

    def __init__(self, name: str) -> None:
        self._address, self._written = _address(name), 0
        self._socket = _socket()

    def ring(self) -> None:
        """One more message has been written; returns at once, whoever listens or not."""
        self._written += 1
        with suppress(OSError):  # there is none, on this machine; or it has rung ten times already
            self._socket.sendto(self._written.to_bytes(_NUMBER_BYTES, "little"), self._address)

    def close(self) -> None:
        """Ring no more."""
        self._socket.close()


class Bell:
    """The end of whoever reads."""

    def __init__(self, name: str) -> None:
        self._address, self._heard, self._taken = _address(name), 0, 0
        self._pause = _SHORTEST
        self._socket = _socket()
        self._socket.bind(self._address)

    def taken(self) -> None:
        """One more message has been read."""
        self._taken += 1
        self._pause = _SHORTEST

    def sleep(self) -> None:
        """Wait until it rings, or it is time to look again."""
        if self._heard and self._heard <= self._taken:
            self._listen(_ASLEEP)
            return
        heard = self._heard
        self._listen(self._pause)
        self._pause = _SHORTEST if self._heard > heard else min(_GROWTH * self._pause, _LONGEST)

    def wake(self) -> None:
        """Wake who sleeps, from another thread."""
        with suppress(OSError):
            self._socket.sendto(b"", self._address)

    def close(self) -> None:
        """Listen no more."""
        self._socket.close()

    def _listen(self, seconds: float) -> None:
        """Take a ring, and all others that are there already."""
        wait = seconds
        while True:
            try:
                self._socket.settimeout(wait)
                number = self._socket.recv(_NUMBER_BYTES)
            except OSError:
                return  # none, or none any more
            self._heard = max(self._heard, int.from_bytes(number, "little"))
            wait = 0.0


def _socket() -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    made.setblocking(False)
    return made


def _address(name: str) -> bytes:
    return b"\0" + name.encode()
