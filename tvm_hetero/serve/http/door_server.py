"""Who may have a connection, and for how long: the outermost door.

Counts are limited in all and for each address, so that one client cannot take all of them. Once a
second all connections are looked at: heads that dawdle, answers that are not read, and clients who
hung up while bytes of their next request still lay unread, of which tornado learns only later.
"""

from __future__ import annotations

import asyncio
import resource
import select
import socket
import time
from collections import Counter
from collections.abc import Iterable
from typing import Any

from tornado.httpserver import HTTPServer
from tornado.iostream import IOStream

from tvm_hetero.serve.core.limits import Limits
from tvm_hetero.serve.http.acceptor import Acceptor
from tvm_hetero.serve.http.delegate import DoorApplication
from tvm_hetero.serve.http.door_stream import DoorStream
from tvm_hetero.serve.http.lingering import MOST_LINGERING, Lingering
from tvm_hetero.serve.http.raw_answers import TOO_MANY_CONNECTIONS, TOO_MANY_OF_ONE

_LOOKS = 1.0  # seconds between two looks at all connections
_CHUNK = 1 << 18  # bytes of a body that are read at a time, each time in tens of microseconds
_DISCARDED = 256 << 20  # bytes of a refused body; the kernel drops them without copying
# Descriptors for models, logs, loops; and for those who are turned away.
_OTHER_FILES = 256 + MOST_LINGERING


class DoorServer(HTTPServer):
    """Tornado's HTTP server with limits on connections; for one event loop.

    Attributes
    ----------
    acceptors : of its listening sockets.
    """

    def initialize(self, application: DoorApplication, limits: Limits) -> None:  # type: ignore[override]
        """Called by tornado's constructor."""
        super().initialize(
            application,
            max_body_size=2 * limits.body,  # handlers refuse sooner, and say why
            max_header_size=limits.header,
            idle_connection_timeout=limits.idle,
            body_timeout=limits.body_seconds,
            chunk_size=_CHUNK,
        )
        self.acceptors: list[Acceptor] = []
        self._turned_away = 0
        self._limits = limits
        self._most = min(limits.connections, _raise_file_limit(limits.connections))
        self._lingering = Lingering(max(_DISCARDED, 2 * limits.body))
        self._streams: dict[object, str] = {}
        self._addresses: Counter[str] = Counter()
        self._looked = time.monotonic()
        self._watching = asyncio.ensure_future(self._watch())

    def add_sockets(self, sockets: Iterable[socket.socket]) -> None:
        """Accept connections on these; `stop` ends it."""
        for sock in sockets:
            acceptor = Acceptor(sock, self._handle_connection)
            self.acceptors.append(acceptor)
            self._sockets[sock.fileno()] = sock
            self._handlers[sock.fileno()] = acceptor.stop

    def handle_stream(self, stream: IOStream, address: tuple[Any, ...]) -> None:
        """Called by tornado for each new connection."""
        host = str(address[0]) if address else ""
        if len(self._streams) + len(self._lingering) >= self._most:
            self._turn_away(stream, TOO_MANY_CONNECTIONS)
        elif self._addresses[host] >= self._limits.connections_of_one:
            self._turn_away(stream, TOO_MANY_OF_ONE)
        else:
            watched = DoorStream(stream.socket, self._lingering, _CHUNK)
            self._streams[watched] = host
            self._addresses[host] += 1
            super().handle_stream(watched, address)

    def on_close(self, server_conn: object) -> None:
        """Called by tornado when a connection is over."""
        super().on_close(server_conn)
        host = self._streams.pop(server_conn.stream)  # type: ignore[attr-defined]
        self._addresses[host] -= 1
        if not self._addresses[host]:
            del self._addresses[host]

    @property
    def turned_away(self) -> int:
        """Connections that were one too many, so far."""
        return self._turned_away + sum(each.turned_away for each in self.acceptors)

    @property
    def connections(self) -> int:
        """How many are open."""
        return len(self._streams)

    @property
    def is_writing(self) -> bool:
        """Whether an answer is on its way to a client."""
        return any(stream.writing() for stream in self._watched())

    async def close(self) -> None:
        """Close all connections: idle ones at once, others so that answers are read."""
        self.stop()
        self._watching.cancel()
        for stream in self._watched():
            if stream.is_idle:
                stream.close_at_once()
        await self.close_all_connections()
        await self._lingering.finish()

    def _watched(self) -> list[DoorStream]:
        return [stream for stream in self._streams if isinstance(stream, DoorStream)]

    def _turn_away(self, stream: IOStream, answer: bytes) -> None:
        self._turned_away += 1
        sock = stream.socket
        try:
            sock.send(answer)  # into an empty buffer: it fits
        except OSError:
            sock.close()
        else:
            self._lingering.close(sock)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_LOOKS)
            self._look(time.monotonic())

    def _look(self, now: float) -> None:
        """Look at all connections; what the process itself slept is no client's fault."""
        slept = now - self._looked - _LOOKS
        self._looked = now
        for stream in self._watched():
            if slept > _LOOKS:  # it was halted, with its container or its machine
                stream.forgive(slept, now, self._limits)
            stream.check_pace(now, self._limits)
        for stream in _hung_up([stream for stream in self._watched() if stream.is_waiting]):
            stream.close_at_once()


def _hung_up(streams: list[DoorStream]) -> list[DoorStream]:
    """Those whose client has closed its side, however much of it is still unread."""
    poll = select.poll()
    by_number = {stream.socket.fileno(): stream for stream in streams}
    for number in by_number:
        poll.register(number, select.POLLRDHUP)
    return [by_number[number] for number, _ in poll.poll(0)]


def _raise_file_limit(connections: int) -> int:
    """Let so many connections have descriptors; returns how many can."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + _OTHER_FILES
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return connections
    reached = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (reached, hard))
    return max(1, reached - _OTHER_FILES)
