"""How a body comes to a handler: a small one as tornado reads it, a large one where it is wanted.

Tornado reads into a buffer of its own, which it clears for each piece, adds that to another and
hands on a copy: four times over each byte, of which a tensor has millions. Here the socket is read
straight into the place where the body stays (`BodyReader.space`), if its length is told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Protocol

from tvm_hetero.serve.http.answer_writer import AnswerWriter
from tvm_hetero.serve.http.door_checks import too_large

if TYPE_CHECKING:
    from tvm_hetero.serve.http.context import ServeContext

_SMALL_BODY = 1 << 14
LARGE_BODY = 1 << 16  # bytes from which on a body is read to its place
_FIRST = 1 << 20  # bytes of memory for a body of which none have come, however long it says it is
_GROWTH = 4  # so many times what has come
_PIECE = 1 << 18  # bytes that are read in tens of microseconds, after which others get their turn


class ReadsInto(Protocol):
    """A stream of tornado's."""

    def read_into(self, buf: bytearray, partial: bool = False) -> Awaitable[int]:
        """Read into a buffer what is there; how many bytes that were."""


class BodyReader(AnswerWriter):
    """The reading half of `ApiHandler`.

    Attributes
    ----------
    body : what came, when the method is called.
    """

    context: ServeContext
    body: bytes | bytearray
    _refused: BaseException | None
    _received = 0

    def receive(self, chunk: bytes) -> None:
        """A part of the body has come; one in chunks shows its size only now."""
        if self._finished or self._refused is not None:
            return
        self._received += len(chunk)
        limit = self.context.options.limits.body
        if self._received > limit:
            self.body = b""
            self._handle_request_exception(too_large("more", limit))
        else:
            self.data_received(chunk)

    def data_received(self, chunk: bytes) -> None:
        """Keep what came of the body."""
        self.body += chunk

    async def read_whole(self, stream: ReadsInto, length: int) -> None:
        """Read a body of that many bytes, no more than the limit, to where it is wanted."""
        done, pause = 0, _PIECE
        while done < length:
            with self.space(done, length) as space, space[:_PIECE] as piece:
                done += await stream.read_into(piece, partial=True)  # type: ignore[arg-type]
            if done >= pause:  # it does not wait for what is there
                pause = done + _PIECE
                await asyncio.sleep(0)

    def space(self, done: int, length: int) -> memoryview:
        """Where bytes of the body go, of which so many are there; it grows with what has come.

        At one go, and seldom: each size that is given back in between is memory that the kernel
        has to clear again for the next request.
        """
        if done == len(self.body):
            larger = bytearray(min(max(_GROWTH * done, _FIRST), length))
            larger[:done] = self.body
            self.body = larger
        assert isinstance(self.body, bytearray), "nothing came by `receive`"
        return memoryview(self.body)[done:]

    def _has_small_body(self) -> bool:
        headers = self.request.headers
        if "Transfer-Encoding" in headers or "Expect" in headers:
            return False
        length = headers.get("Content-Length", "0")
        here = self._connection.stream._read_buffer_size
        return length.isdecimal() and len(length) < 9 and int(length) <= max(_SMALL_BODY, here)
