"""Closing a connection whose client may still be sending, so that it gets to read its answer.

A socket that is closed with unread bytes in it is reset, and a reset makes the client's kernel
throw away what it had received: a refusal that was sent while a large body was on its way would
never be read. So the writing side is closed at once, and what still comes is thrown away until the
client has closed its side, has been silent for a while, or has sent too much (RFC 9112, 9.6).
"""

from __future__ import annotations

import asyncio
import socket
import time
from dataclasses import dataclass

from tvm_hetero.serve.http.discard import discard

_LOOKS = 0.01
MOST_LINGERING = 256


@dataclass
class _Closing:
    """A socket on its way out: bytes that may still come, and until when."""

    bytes_left: int
    end: float
    timer: asyncio.TimerHandle


class Lingering:
    """Closes sockets gently; for one event loop.

    Parameters
    ----------
    most_bytes : that one client may still send.
    most_sockets : at once; further ones are closed without waiting.
    silence, seconds : without a byte, and of all of it, after which a socket is closed.
    """

    def __init__(
        self,
        most_bytes: int,
        most_sockets: int = MOST_LINGERING,
        silence: float = 1.0,
        seconds: float = 10.0,
    ) -> None:
        self._most_bytes, self._most_sockets = most_bytes, most_sockets
        self._silence, self._seconds = silence, seconds
        self._closing: dict[socket.socket, _Closing] = {}

    def __len__(self) -> int:
        return len(self._closing)

    def close(self, sock: socket.socket) -> None:
        """Close a socket that nothing reads any more."""
        try:
            sock.shutdown(socket.SHUT_WR)
        except OSError:
            sock.close()
            return
        if len(self._closing) >= self._most_sockets:
            sock.close()
            return
        loop = asyncio.get_running_loop()
        timer = loop.call_later(self._silence, self._end, sock)
        self._closing[sock] = _Closing(self._most_bytes, time.monotonic() + self._seconds, timer)
        loop.add_reader(sock, self._discard, sock)

    async def finish(self) -> None:
        """Wait until all are closed, one time of silence at most."""
        end = time.monotonic() + self._silence
        while self._closing and time.monotonic() < end:
            await asyncio.sleep(_LOOKS)
        for sock in list(self._closing):
            self._end(sock)

    def _discard(self, sock: socket.socket) -> None:
        closing = self._closing[sock]
        try:
            count = discard(sock, closing.bytes_left + 1)
        except BlockingIOError:
            return
        except OSError:
            count = 0
        closing.bytes_left -= count
        if not count or closing.bytes_left < 0 or time.monotonic() > closing.end:
            self._end(sock)
            return
        closing.timer.cancel()
        loop = asyncio.get_running_loop()
        closing.timer = loop.call_later(self._silence, self._end, sock)

    def _end(self, sock: socket.socket) -> None:
        closing = self._closing.pop(sock, None)
        if closing is not None:
            closing.timer.cancel()
            asyncio.get_running_loop().remove_reader(sock)
            sock.close()
