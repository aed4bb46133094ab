"""Connections to a server that are kept, and as little as possible between them and the clock."""

from __future__ import annotations

import asyncio
from typing import NamedTuple
from urllib.parse import urlsplit

from tvm_hetero.errors import UsageError
from tvm_hetero.serve.core.refusal import REASON_HEADER

_MOST_HEAD = 1 << 16
_REASON = REASON_HEADER.lower().encode()


class ClientReply(NamedTuple):
    """What came back: the status, why (our servers' own word for it), and the body."""

    status: int
    reason: str
    body: bytes


class LostConnectionError(Exception):
    """The server closed, or spoke no HTTP that is understood here."""


class ClientConnection(asyncio.Protocol):
    """One connection; one request at a time."""

    def __init__(self) -> None:
        self.is_open = False
        self._buffer = bytearray()
        self._body_length = -1
        self._status, self._reason, self._keeps = 0, "", True
        self._reply: asyncio.Future[ClientReply] | None = None
        self._transport: asyncio.Transport | None = None

    def send(self, request: bytes) -> asyncio.Future[ClientReply]:
        """Ask; the reply is a future."""
        assert self._transport is not None, "it is connected"
        self._reply = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return self._reply

    def close(self) -> None:
        """Hang up."""
        self.is_open = False
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio."""
        assert isinstance(transport, asyncio.Transport)
        self._transport, self.is_open = transport, True

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by asyncio."""
        self.fail(f"the connection was lost: {exc}" if exc else "the server closed")

    def data_received(self, data: bytes) -> None:
        """Called by asyncio."""
        self._buffer += data
        if self._body_length < 0 and not self._read_head():
            return
        if len(self._buffer) < self._body_length:
            return
        reply = ClientReply(self._status, self._reason, bytes(self._buffer[: self._body_length]))
        del self._buffer[: self._body_length]
        self._body_length = -1
        if not self._keeps:
            self.close()
        if self._reply is not None and not self._reply.done():
            self._reply.set_result(reply)

    def _read_head(self) -> bool:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            if len(self._buffer) > _MOST_HEAD:
                self.fail("the reply's head is too large")
            return False
        lines = bytes(self._buffer[:end]).split(b"\r\n")
        del self._buffer[: end + 4]
        pairs = (line.partition(b":") for line in lines[1:])
        headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        try:
            self._status = int(lines[0].split()[1])
            self._body_length = int(headers[b"content-length"])
        except (IndexError, KeyError, ValueError):
            self.fail("the reply has no Content-Length, which load tests need")
            return False
        self._reason = headers.get(_REASON, b"").decode("latin-1")
        self._keeps = headers.get(b"connection", b"").lower() != b"close"
        return True

    def fail(self, text: str) -> None:
        """Hang up; who waits for a reply is told why there is none."""
        self.close()
        if self._reply is not None and not self._reply.done():
            self._reply.set_exception(LostConnectionError(text))


class ClientPool:
    """Connections that are free, and so many at most.

    Attributes
    ----------
    opened : connections so far.
    """

    def __init__(self, host: str, port: int, most: int) -> None:
        self._host, self._port = host, port
        self._free: list[ClientConnection] = []
        self._room = asyncio.Semaphore(most)
        self.opened = 0

    @property
    def is_full(self) -> bool:
        """Whether no connection is free, and no more may be opened."""
        return self._room.locked()

    async def take(self) -> ClientConnection:
        """A connection, as soon as there is one.

        Raises
        ------
        OSError
            If the server cannot be reached.
        """
        await self._room.acquire()
        while self._free:
            connection = self._free.pop()
            if connection.is_open:
                return connection
        self.opened += 1
        try:
            _, made = await asyncio.get_running_loop().create_connection(
                ClientConnection, self._host, self._port
            )
        except BaseException:
            self._room.release()
            raise
        return made

    def give_back(self, connection: ClientConnection) -> None:
        """Let others have it, if it is open."""
        if connection.is_open:
            self._free.append(connection)
        self._room.release()

    def close(self) -> None:
        """Hang up everywhere."""
        for connection in self._free:
            connection.close()


def split_url(url: str) -> tuple[str, int]:
    """Host and port of ``http://HOST[:PORT]``.

    Raises
    ------
    UsageError
        If it is no such address.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or 80
    except ValueError:
        host, port = None, 0
    if host is None or parts.scheme != "http" or parts.path not in ("", "/"):
        raise UsageError(f"{url}: expected the address of a server, such as http://localhost:8000")
    return host, port
