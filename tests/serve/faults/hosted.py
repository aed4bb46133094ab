"""A server in a thread of the test's process, with routes that are slow, or large, on demand."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from tests.serve.server_thread import ServerThread
from tvm_hetero.serve.core.options import ServeOptions
from tvm_hetero.serve.http.door_stream import DoorStream
from tvm_hetero.serve.http.handler import ApiHandler
from tvm_hetero.serve.http.routes import HttpRoute


class Gated(ApiHandler):
    """``POST /gated``: answers with the length of its body when the test opens the gate."""

    answers_while_draining: ClassVar[bool] = False
    has_lane: ClassVar[bool] = True

    async def post(self) -> None:
        """Wait for the gate."""
        gate = self.context.parts["gate"]
        gate.waiting += 1
        try:
            await self.attend(gate.event.wait())
        except asyncio.CancelledError:
            gate.cancelled += 1
            raise
        finally:
            gate.waiting -= 1
        self.answer({"bytes": len(self.body)})


class Large(ApiHandler):
    """``GET /large``: 32 MiB."""

    def get(self) -> None:
        """All at once."""
        self.finish(b"x" * (32 << 20))


class Repeated(ApiHandler):
    """``POST /repeated``: so many times what was sent."""

    has_lane: ClassVar[bool] = True

    def post(self) -> None:
        """All at once; `send` copies small answers, and large ones not."""
        count = int(self.request.headers["X-Times"])
        self.send([bytes(self.body) * count], "text/plain")


class Gate:
    """How many wait at it, and how many were cancelled there."""

    def __init__(self) -> None:
        self.event = asyncio.Event()
        self.waiting = 0
        self.cancelled = 0


class Hosted(ServerThread):
    """A server with a gate.

    Attributes
    ----------
    gate : at which requests of ``/gated`` wait.
    """

    def __init__(
        self, models: Mapping[str, Path] | None = None, options: ServeOptions | None = None
    ) -> None:
        routes = [HttpRoute(r"/gated", Gated), HttpRoute(r"/large", Large),
                  HttpRoute(r"/repeated", Repeated)]  # fmt: skip
        super().__init__(models, options, routes)
        self.gate = Gate()
        self.server.context.parts["gate"] = self.gate

    @property
    def streams(self) -> list[DoorStream]:
        """Of its open connections."""
        http = self.server._http
        assert http is not None
        return http._watched()

    @property
    def taken(self) -> int:
        """Requests that the lanes of its open connections took."""
        lanes = self.ask(lambda: [stream.lane for stream in self.streams])
        return sum(lane.taken for lane in lanes if lane is not None)

    def open_gate(self) -> None:
        """Let those go who wait, and who will come."""
        self.ask(self.gate.event.set)

    def __exit__(self, *_: object) -> None:
        self.open_gate()
        super().__exit__()
