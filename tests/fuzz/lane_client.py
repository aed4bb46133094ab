"""A client that says byte by byte what a script says, and waits for what the server makes of it.

No moment is one of the clock: the server is looked at from inside until it does nothing more.
"""

from __future__ import annotations

import fcntl
import re
import select
import socket
import sys
import termios
import time
from concurrent.futures import Future
from typing import Any

from tests.serve.faults.hosted import Hosted
from tests.waiting import LIMIT, eventually

# Looks in a row that have to find the same: each is a turn of the server's loop. And so many more
# when the time is up, each with a pause (s), before it is said that there is no end: a process that
# was stopped has done nothing meanwhile.
_LOOKS, _MANY, _PAUSE = 8, 1000, 0.01
_DATE = re.compile(rb"\r\nDate: [^\r]*")
_BEGIN, _LATE = b"HTTP/1.1 ", b"Tvm-Hetero-Reason: deadline"


class LaneClient:
    """One connection to a server, and the server's end of it.

    Attributes
    ----------
    parts : what had come at each moment at which the server had done what it could.
    is_open : whether the server still listens.
    """

    def __init__(self, server: Hosted) -> None:
        self.server = server
        self.parts: list[bytes] = []
        self.is_open = True
        self._came = bytearray()
        self._ending: Future[None] | None = None
        self._socket = socket.create_connection(server.address, timeout=LIMIT)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        assert eventually(lambda: server.ask(lambda: len(server.streams) == 1))
        self._stream = server.ask(lambda: server.streams[0])

    @property
    def taken(self) -> int:
        """How many of its requests went by the lane."""
        lane = self._stream.lane
        return 0 if lane is None else lane.taken

    def send(self, packet: bytes) -> None:
        """Send it, if anybody is there."""
        self._read()
        try:
            self._socket.sendall(packet)
        except (BrokenPipeError, ConnectionResetError):
            self._read()

    def settle(self) -> None:
        """Read what comes until the server does nothing more, and keep it as a part."""
        end, last, same, late = time.monotonic() + LIMIT, None, 0, 0
        while same < _LOOKS:
            rests, *state = self.server.ask(self._state)
            now = (*state, len(self._came), self.is_open)
            same, last = (same + 1 if rests and now == last else 0), now
            self._read()
            if time.monotonic() > end:
                time.sleep(_PAUSE)
                late += 1
            if late > _MANY:
                raise TimeoutError(f"the server has not done what it can within {LIMIT:g} s")
        self.parts.append(normal(bytes(self._came)))
        self._came.clear()

    def dawdle(self, seconds: float) -> None:
        """Have the server look at the connection as if so many seconds had passed."""
        limits = self.server.server.context.options.limits
        self.server.ask(lambda: self._stream.check_pace(time.monotonic() + seconds, limits))

    def end_server(self) -> None:
        """Let the server begin to end, as at a signal; see `serve.lifecycle`."""
        if self._ending is None:
            self._ending = self.server.begin(self._drain_and_stop())
            assert eventually(lambda: self.server.ask(lambda: self.server.server.context.draining))

    def shut(self) -> None:
        """Close the client's side. A server that works, and has read on, finds that out at its next
        look at all connections; what is under way ends then."""
        if self.is_open:
            self._socket.shutdown(socket.SHUT_WR)
            if not eventually(lambda: self.server.ask(self._stream.closed)):
                raise TimeoutError("a client that will say no more still has its connection")

    def close(self) -> None:
        """Hang up."""
        self._socket.close()
        if self._ending is not None:
            self._ending.result(LIMIT)

    async def _drain_and_stop(self) -> None:
        await self.server.server.drain()
        await self.server.server.stop()

    def _read(self) -> None:
        """All that has come; a kernel that waits with its acknowledgement would hold back more."""
        if self.is_open:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        while self.is_open and select.select([self._socket], [], [], 0)[0]:
            try:
                data = self._socket.recv(1 << 16)
            except ConnectionResetError:
                data = b""
            self.is_open = bool(data)
            self._came += data

    def _state(self) -> tuple[Any, ...]:
        """Whether the server rests: nothing is worked on elsewhere than at the gate, and no bytes
        are on their way; and what else would change if it did anything."""
        stream, active = self._stream, self.server.server.context.active
        working = sum(not handler._is_coming for handler in active) - self.server.gate.waiting
        sent = unheard(stream.socket) if stream.socket is not None else 0
        # Who ends looks now and then whether all is answered, and ends soon after it is.
        ends = self._ending is not None and not active and not self._ending.done()
        rests = not (working or sent or ends)
        return rests, len(active), stream.closed(), stream._read_buffer_size, self.taken


def unheard(sock: socket.socket) -> int:
    """Bytes that a socket was given, and of which the other end has not said that it has them."""
    return int.from_bytes(fcntl.ioctl(sock, termios.TIOCOUTQ, bytes(4)), sys.byteorder)


def normal(answers: bytes) -> bytes:
    """Answers without what no two of them share: dates, and what a refusal says of its seconds."""
    parts = _DATE.sub(b"", answers).split(_BEGIN)
    return _BEGIN.join(_LATE if _LATE in part else part for part in parts)
