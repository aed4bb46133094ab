"""Server-sent events: ``data: {...}`` for each piece, ``data: [DONE]`` at the end.

The status line goes with the first piece, so what fails before it has a status of its own. What
fails later is an event with an error, which OpenAI's clients raise, and there is no ``[DONE]``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import orjson
from tornado.iostream import StreamClosedError

from tvm_hetero.serve.http.errors import describe_fault
from tvm_hetero.serve.openai.errors import error_body
from tvm_hetero.serve.openai.handler import OpenAiHandler

_LOG = logging.getLogger("tvm_hetero.serve")


async def write_events(
    handler: OpenAiHandler, events: AsyncGenerator[list[Any], None], deadline: float | None
) -> None:
    """Write all events as they come; a client that reads none of them for long is cut off.

    Raises
    ------
    HeteroError
        What `events` raises before the first one.
    """
    writer = _EventWriter(handler)
    try:
        await handler.attend_until(deadline, writer.write_all(events))
    except (Exception, asyncio.CancelledError) as caught:
        error: BaseException = caught
        if isinstance(caught, asyncio.CancelledError):
            if handler.given_up is None:
                raise  # the client is gone
            error = handler.given_up
        if not writer.has_begun:
            raise
        fault = describe_fault(error)
        if fault.status == 500:
            _LOG.error("%s failed within a stream", handler.request.path, exc_info=error)
        writer.write(orjson.dumps(error_body(fault, error)))
    else:
        writer.write(b"[DONE]")
    handler.finish()


class _EventWriter:
    def __init__(self, handler: OpenAiHandler) -> None:
        self._handler = handler
        self._patience = handler.context.options.limits.stalled
        self.has_begun = False

    async def write_all(self, events: AsyncGenerator[list[Any], None]) -> None:
        async with aclosing(events):
            async for documents in events:
                if not self.has_begun:
                    self._begin()
                for document in documents:
                    self.write(orjson.dumps(document))
                await self._flush()

    def write(self, data: bytes) -> None:
        self._handler.write(b"data: " + data + b"\n\n")

    def _begin(self) -> None:
        self.has_begun = True
        self._handler.set_header("Content-Type", "text/event-stream; charset=utf-8")
        self._handler.set_header("Cache-Control", "no-cache")
        self._handler.set_header("X-Accel-Buffering", "no")  # proxies shall not collect events

    async def _flush(self) -> None:
        """Wait until it is with the client; a reader who does not read is as one who is gone."""
        try:
            async with asyncio.timeout(self._patience) as limit:
                await self._handler.flush()
        except StreamClosedError:
            raise asyncio.CancelledError from None
        except TimeoutError:
            if limit.expired():
                connection: Any = self._handler.request.connection
                connection.stream.close()
                raise asyncio.CancelledError from None
            raise
