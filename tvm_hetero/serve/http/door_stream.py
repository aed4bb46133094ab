"""A connection, and what its client may not do with it: dawdle, send a huge head, not read.

Tornado has one time limit for an idle connection and for a head that comes a byte a minute. Here a
head has its own, from its first byte on. The server looks at all connections once a second
(`DoorServer`); a request pays for it no more than one comparison each time its socket is read.
"""

from __future__ import annotations

import contextlib
import math
import socket
import time
from asyncio import Future
from collections.abc import Awaitable
from types import TracebackType

from tornado.ioloop import IOLoop
from tornado.iostream import IOStream, UnsatisfiableReadError

from tvm_hetero.serve.core.limits import Limits
from tvm_hetero.serve.http.discard import discard
from tvm_hetero.serve.http.fast_lane import FastLane
from tvm_hetero.serve.http.lingering import Lingering
from tvm_hetero.serve.http.raw_answers import HEAD_TOO_LARGE, HEAD_TOO_SLOW, MALFORMED

# The most that the lane takes; to make room for more would be a call of the kernel's each time.
_LANE_BYTES = 1 << 16
_BARE = b"HTTP/1.1 400 Bad Request\r\n\r\n"  # all that tornado says of what it cannot read

_ErrorInfo = (
    bool
    | BaseException
    | tuple[type[BaseException] | None, BaseException | None, TracebackType | None]
    | None
)


class DoorStream(IOStream):
    """Tornado's stream of a client's socket, watched.

    Parameters
    ----------
    lingering : closes sockets whose client may still be sending.

    Attributes
    ----------
    lane : answers requests whose head is known, once it is there.
    """

    def __init__(self, sock: socket.socket, lingering: Lingering, read_chunk_size: int) -> None:
        super().__init__(sock, read_chunk_size=read_chunk_size)
        self._lingering = lingering
        self._lingers = True
        self._head: Awaitable[bytes] | None = None
        self._head_since: float | None = None
        self._to_skip = 0  # bytes of a body that is refused
        self._sent, self._sent_before = 0, 0
        self._moved = time.monotonic()
        self._allowed = math.inf  # when the client has to have sent what it is to send
        self.lane: FastLane | None = None

    def allow(self, seconds: float) -> None:
        """Close when so many seconds have passed, and not what was said before."""
        self._allowed = time.monotonic() + seconds

    def forgive(self, seconds: float, now: float, limits: Limits) -> None:
        """Allow so much more for what the client is doing; what it began only after these seconds
        gets no more than is allowed anyhow."""
        if self._allowed < math.inf:
            longest = max(limits.idle, limits.body_seconds)
            self._allowed = min(self._allowed + seconds, now + longest)
        self._moved = min(self._moved + seconds, now)
        if self._head_since is not None:
            self._head_since = min(self._head_since + seconds, now)

    def read_until_regex(self, regex: bytes, max_bytes: int | None = None) -> Awaitable[bytes]:
        """Called by tornado for the head of the next request, of which a part may be here."""
        self._head_since = time.monotonic() if self._read_buffer_size else None
        self._head = None
        self._head = super().read_until_regex(regex, max_bytes)
        return self._head

    def read_from_fd(self, buf: bytearray | memoryview) -> int | None:
        """Called by tornado when there is something to read."""
        try:
            count = super().read_from_fd(buf)
        finally:
            del buf  # or the exception's frame would keep it
        if count == 0:
            self._lingers = False  # the client has closed its side: nothing more can come
        elif count and self._head_since is None:
            self._head_since = time.monotonic()
        return count

    def reading(self) -> bool:
        """Whether tornado waits for something to read; not while the lane answers a request."""
        return not self._is_in_lane and super().reading()

    def skip(self, count: int) -> Awaitable[bytes]:
        """Throw away the next bytes, which nobody reads; done when all of them have come.

        Raises
        ------
        StreamClosedError
            The connection has ended meanwhile, as when the answer found nobody.
        """
        self._check_closed()
        here = min(count, self._read_buffer_size)
        self._consume(here)
        self._to_skip = count - here
        skipped: Awaitable[bytes] = self._start_read()
        self._skip_some()
        if self._to_skip and not self.closed():
            self._add_io_state(IOLoop.READ)
        return skipped

    def _skip_some(self) -> None:
        """What is there of it; a connection that has ended is closed."""
        try:
            count = discard(self.socket, self._to_skip) if self._to_skip else None
        except BlockingIOError:
            return
        except OSError as error:
            self.close(error)
            return
        if count == 0:
            self._lingers = False  # nothing more can come
            self.close()
            return
        self._to_skip -= count or 0
        if not self._to_skip:
            skipped, self._read_future = self._read_future, None
            assert skipped is not None, "it is awaited"
            skipped.set_result(b"")

    def read_on(self) -> None:
        """The lane has answered: what came meanwhile is for tornado."""
        if self._read_buffer_size and not self.closed():
            self._head_since = time.monotonic()  # it waited for its turn
            try:
                self._try_inline_read()
            except UnsatisfiableReadError as error:
                self.close(error)

    def head(self) -> bytes:
        """The bytes of the head that came last, of which tornado tells only what they mean."""
        return b"" if self._head is None else self._head.result()  # type: ignore[attr-defined]

    def send(self, data: bytes) -> Future[None] | None:
        """Send what the socket takes at once; None: all of it, else `write` has the rest."""
        if self.writing() or self.closed():
            return self.write(data)
        try:
            count = self.socket.send(data)
        except OSError:
            return self.write(data)  # which finds out what is the matter
        self._sent += count
        return None if count == len(data) else self.write(memoryview(data)[count:])

    def write(self, data: bytes | memoryview) -> Future[None]:
        """Called by tornado; what is no request is told what one is."""
        return super().write(MALFORMED if data == _BARE else data)

    def write_to_fd(self, data: memoryview) -> int:
        """Called by tornado when something can be written."""
        try:
            count = super().write_to_fd(data)
        finally:
            del data
        self._sent += count
        return count

    def close(self, exc_info: _ErrorInfo = False) -> None:
        """Close; who sent too large a head is told so."""
        if isinstance(exc_info, UnsatisfiableReadError) and self._is_in_head:
            self._say_last(HEAD_TOO_LARGE)
        if self._awaits_head or self._read_future is None:
            # Requests behind the last one that was read: tornado would begin them all, for no one.
            self._consume(self._read_buffer_size)
        super().close(exc_info)

    def close_fd(self) -> None:
        """Called by tornado: the socket itself."""
        sock, self.socket = self.socket, None  # type: ignore[assignment]
        if self._lingers and not isinstance(self.error, OSError):
            self._lingering.close(sock)
        else:
            sock.close()

    def close_at_once(self) -> None:
        """Close without waiting for anything."""
        self._lingers = False
        self.close()

    def check_pace(self, now: float, limits: Limits) -> None:
        """Cut off who sends a head or a body too slowly, or nothing, or reads no answer."""
        if self.closed():
            return
        if self._is_in_head and now - (self._head_since or now) > limits.head_seconds:
            self._say_last(HEAD_TOO_SLOW)
            self.close()
        elif now > self._allowed:
            self.close()
        elif not self.writing() or self._sent != self._sent_before:
            self._moved, self._sent_before = now, self._sent
        elif now - self._moved > limits.stalled:
            self.close_at_once()

    @property
    def is_idle(self) -> bool:
        """Whether its client has nothing of a request on the way, and nothing to read."""
        return self._is_in_head and self._head_since is None and not self.writing()

    @property
    def is_waiting(self) -> bool:
        """Whether a request of it is being answered: neither read nor written just now."""
        return not (self.closed() or self.reading() or self.writing())

    @property
    def _is_in_head(self) -> bool:
        if self._is_in_lane:
            return False
        # A head that is too large at its very first read is so inside `read_until_regex`.
        return self._head is None or (not self._head.done() and not self.closed())  # type: ignore[attr-defined]

    @property
    def _is_in_lane(self) -> bool:
        return self.lane is not None and self.lane.is_busy

    def _try_inline_read(self) -> None:
        """Called by tornado when it begins to read. Where a head begins, what came already may be
        the lane's; the socket is not tried: most clients have not sent their next request yet."""
        if self.lane is None or self.closed() or not self._awaits_head:
            super()._try_inline_read()
        elif not self._read_buffer_size or self._is_taken():
            self._add_io_state(IOLoop.READ)
        else:
            super()._try_inline_read()

    def _is_taken(self) -> bool:
        """Whether the lane takes what is in the buffer."""
        if self.lane is None or self._read_buffer_size > _LANE_BYTES:
            return False
        data = self._consume(self._read_buffer_size)
        if self.lane.take(data):
            self._head_since = None  # that head has come
            return True
        self._read_buffer += data
        self._read_buffer_size += len(data)
        return False

    def _handle_read(self) -> None:
        """Called by tornado when there is something to read; with what begins a head, the lane is
        asked first."""
        if self._to_skip:
            self._skip_some()
            return
        lane = self.lane
        if lane is None or (not lane.is_busy and (self._read_buffer_size or not self._awaits_head)):
            super()._handle_read()
            return
        data = self._receive()
        if not data or (not lane.is_busy and lane.take(data)):
            return
        if self._head_since is None:
            self._head_since = time.monotonic()
        self._read_buffer += data
        self._read_buffer_size += len(data)
        if not lane.is_busy:
            pos = self._find_read_pos()
            if pos is not None:
                self._read_from_buffer(pos)

    @property
    def _awaits_head(self) -> bool:
        return self._read_regex is not None

    def _receive(self) -> bytes | None:
        """What there is, without a buffer of its own; a connection that has ended is closed."""
        try:
            data = self.socket.recv(_LANE_BYTES)
        except BlockingIOError:
            return None
        except OSError as error:
            self.close(error)
            return None
        if not data:
            self._lingers = False  # the client has closed its side: nothing more can come
            self.close()
        return data

    def _say_last(self, answer: bytes) -> None:
        if not self.writing():
            with contextlib.suppress(OSError):
                self.socket.send(answer)
