"""A request that is all there at the first look, with a head that is known: answered from there.

Tornado reads a request in a coroutine of its own, which is woken when the head is there, hands the
body on, sleeps until the answer is written and begins again. It goes on sleeping here, waiting for
a head, while the usual small request passes beside it:

    take    what came is a known head (`known_heads`) and the whole body, and nothing else
    end     the answer is written; what came meanwhile is read by tornado's coroutine, in its turn

All else is left in the stream's buffer, and is tornado's: heads that come the first time, bodies
that come in parts, chunks, requests that were sent before the last one was answered.
"""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Any

from tornado.http1connection import HTTP1Connection

from tvm_hetero.serve.http.known_heads import KnownHead

if TYPE_CHECKING:
    from tvm_hetero.serve.http.delegate import DoorApplication
    from tvm_hetero.serve.http.door_stream import DoorStream

_END = b"\r\n\r\n"


class LaneConnection(HTTP1Connection):
    """Tornado's connection, of one request that is all there."""

    stream: DoorStream

    def __init__(self, lane: FastLane, known: KnownHead) -> None:
        # What tornado's own makes anew for each request is the same for all of them.
        vars(self).update(lane.usual)
        self._lane = lane
        self._request_start_line, self._request_headers = known.start_line, known.headers

    def send_whole(self, answer: bytes) -> None:
        """Send head and body, and be done."""
        self._close_callback = None
        self._write_finished = True
        if self.stream.closed():
            self._lane.end()
            return
        self._pending_write = self.stream.send(answer)
        if self._pending_write is None:
            self.stream.set_close_callback(None)
            self._lane.end()
        else:
            self._pending_write.add_done_callback(self._finish_request)

    def _finish_request(self, future: asyncio.Future[None] | None) -> None:
        super()._finish_request(future)
        self._lane.end()


class FastLane:
    """Of one connection.

    Attributes
    ----------
    is_busy : whether a request that it took is being answered.
    taken : how many it took.
    usual : the attributes of a connection of tornado's when its request has come.
    """

    def __init__(
        self,
        application: DoorApplication,
        server: object,
        connection: HTTP1Connection,
        stream: DoorStream,
    ) -> None:
        self.stream = stream
        self.is_busy = False
        self.taken = 0
        self._application, self._server = application, server
        self._heads, self._context = application.heads, application.context
        self.usual = _attributes_of(HTTP1Connection(stream, False, connection.params,
                                                    connection.context))  # fmt: skip
        self._idle = application.context.options.limits.idle
        self._work: asyncio.Task[None] | None = None  # the loop itself holds it weakly

    def take(self, data: bytes) -> bool:
        """Answer what came, if that is the whole of a request whose head is known."""
        end = data.find(_END) + len(_END)
        known = self._heads.find(data[:end])
        if known is None or len(data) - end != known.length:
            return False
        self.is_busy = True
        self.taken += 1
        self.stream.allow(math.inf)
        connection = LaneConnection(self, known)
        request = known.request(connection, self._server)
        handler = known.handler(self._application, request, context=self._context)
        handler.open_known(known)
        handler.receive(data[end:])
        work = handler.respond()
        if work is not None:
            self._work = asyncio.get_running_loop().create_task(work)
        if self.is_busy:
            self.stream.set_close_callback(connection._on_connection_close)
        return True

    def end(self) -> None:
        """The request is answered."""
        self.is_busy = False
        self._work = None
        self.stream.allow(self._idle)
        self.stream.read_on()


def _attributes_of(connection: HTTP1Connection) -> dict[str, Any]:
    """Those of a connection whose request has come; nobody of ours waits for its end."""
    connection._read_finished = True
    connection._finish_future.set_result(None)
    return vars(connection)
