"""The page's data: the document once, and once a second for whoever looks.

A stream is server-sent events. One document is made a second for all viewers, and none if there are
no viewers. When the server drains, viewers are told so and let go at once.
"""

from __future__ import annotations

import asyncio
import time
from typing import ClassVar, cast

import orjson
from tornado.http1connection import HTTP1Connection

from tvm_hetero.serve.core.refusal import STREAMS, RefusedError
from tvm_hetero.serve.http.context import ServeContext
from tvm_hetero.serve.http.handler import ApiHandler
from tvm_hetero.serve.metrics.server_metrics import ServerMetrics
from tvm_hetero.serve.page.plans import PlanPictures, draw_plan, executor_of
from tvm_hetero.serve.page.scrape import PART as METRICS
from tvm_hetero.serve.page.snapshot import take_snapshot

MOST_VIEWERS = 16
_PERIOD, _LOOKS = 1.0, 0.1  # seconds between two documents, and two looks at whether it is over
PART = "page"


class PageData:
    """What all viewers share."""

    def __init__(self, context: ServeContext) -> None:
        self._context = context
        self._metrics: ServerMetrics = context.parts[METRICS]
        self._made = (-1.0, b"")
        self.pictures = PlanPictures()
        self.viewers = 0

    def document(self) -> bytes:
        """The newest document as JSON; one that is fresh is given to all."""
        now = time.monotonic()
        is_old = now - self._made[0] >= _PERIOD / 2
        if is_old or self._context.draining:
            taken = take_snapshot(self._context, self._metrics, self.pictures)
            self._made = now, orjson.dumps(taken)
        return self._made[1]


def page_data(context: ServeContext) -> PageData:
    """The server's one `PageData`; made when the first viewer comes."""
    if PART not in context.parts:
        context.parts[PART] = PageData(context)
    found: PageData = context.parts[PART]
    return found


class PageState(ApiHandler):
    """``GET /page/state.json``: the document."""

    def get(self) -> None:
        """Once."""
        self.set_header("Cache-Control", "no-store")
        self.set_header("Content-Type", "application/json")
        self.finish(page_data(self.context).document())


class PagePlan(ApiHandler):
    """``GET /page/plans/NAME``: the plan by which a model runs."""

    async def get(self, name: str) -> None:
        """Drawn aside, since large plans take a while."""
        executor = executor_of(self.find_model(name))
        loop = asyncio.get_running_loop()
        picture = await self.attend(loop.run_in_executor(None, draw_plan, executor))
        self.set_header("Cache-Control", "no-store")
        self.answer(picture)


class PageEvents(ApiHandler):
    """``GET /page/events``: the document once a second, until the server drains."""

    answers_while_draining: ClassVar[bool] = False
    _watches = False

    def check_door(self) -> None:
        """So many may look at once."""
        data = page_data(self.context)
        if data.viewers >= MOST_VIEWERS:
            raise RefusedError(
                f"{data.viewers} look at the page already, the most that may",
                reason=STREAMS, status=429, retry_after=5.0,
            )  # fmt: skip
        data.viewers += 1
        self._watches = True

    def on_finish(self) -> None:
        """One viewer less."""
        if self._watches:
            page_data(self.context).viewers -= 1
        super().on_finish()

    async def get(self) -> None:
        """The last document says that the server is draining."""
        self.set_header("Content-Type", "text/event-stream")
        self.set_header("Cache-Control", "no-store")
        await self.attend(self._tell())
        self.finish()

    async def _tell(self) -> None:
        is_last = False
        while not is_last:
            is_last = self.context.draining
            self.write(b"data: " + page_data(self.context).document() + b"\n\n")
            if not await self._flush():
                cast(HTTP1Connection, self.request.connection).close()
                return
            await self._pause()

    async def _flush(self) -> bool:
        """Whether the viewer reads what it is sent; a drain does not wait for one that does not."""
        flushing = asyncio.ensure_future(self.flush())
        end = time.monotonic() + self.context.options.limits.stalled
        await asyncio.wait({flushing}, timeout=_LOOKS)
        while not flushing.done() and time.monotonic() < end and not self.context.draining:
            await asyncio.wait({flushing}, timeout=_LOOKS)
        return flushing.done() and flushing.exception() is None

    async def _pause(self) -> None:
        end = time.monotonic() + _PERIOD
        while time.monotonic() < end and not self.context.draining:
            await asyncio.sleep(_LOOKS)
