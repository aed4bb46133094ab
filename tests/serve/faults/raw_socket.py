"""A client that says whatever it likes, byte by byte."""

from __future__ import annotations

import socket
from typing import Self

from tests.serve.server_process import Reply
from tests.waiting import LIMIT


class RawSocket:
    """A connection to a server."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address, timeout=LIMIT)
        self._file = self.socket.makefile("rb")

    def send(self, data: bytes | str) -> Self:
        """Send all of it."""
        self.socket.sendall(data if isinstance(data, bytes) else data.encode("latin-1"))
        return self

    def head(self, method: str, path: str, *lines: str, version: str = "HTTP/1.1") -> Self:
        """Send a request's head."""
        return self.send(
            "\r\n".join([f"{method} {path} {version}", "Host: localhost", *lines, "", ""])
        )

    def reply(self) -> Reply:
        """The next response, headers by their names in small letters; ``100 Continue`` is one."""
        line = self._file.readline()
        assert line.startswith(b"HTTP/1.1 "), f"expected a status line, got {line!r}"
        status = int(line.split()[1])
        headers = {}
        while (line := self._file.readline()).strip():
            name, _, value = line.decode("latin-1").partition(":")
            headers[name.lower()] = value.strip()
        if "transfer-encoding" in headers:
            raise NotImplementedError("chunked")
        length = int(headers.get("content-length", 0))
        body = self._file.read(length)
        assert len(body) == length, f"the body ends after {len(body)} of {length} bytes"
        return Reply(status, headers, body)

    def is_ended(self) -> bool:
        """Whether the server has closed its side, and nothing but the end is to be read."""
        try:
            return self._file.read(1) == b""
        except ConnectionResetError:
            return True

    def close(self) -> None:
        """Hang up."""
        self._file.close()
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
