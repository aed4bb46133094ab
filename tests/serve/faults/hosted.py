"""A server in a thread of the test's process, with routes that are slow, or large, on demand."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

from tests.waiting import LIMIT
from tvm_hetero.serve.core.options import ServeOptions
from tvm_hetero.serve.http.handler import ApiHandler
from tvm_hetero.serve.http.routes import HttpRoute
from tvm_hetero.serve.server import ModelServer

T = TypeVar("T")


class Gated(ApiHandler):
    """``POST /gated``: answers with the length of its body when the test opens the gate."""

    answers_while_draining: ClassVar[bool] = False

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


class Gate:
    """How many wait at it, and how many were cancelled there."""

    def __init__(self) -> None:
        self.event = asyncio.Event()
        self.waiting = 0
        self.cancelled = 0


class Hosted:
    """A server in a thread.

    Attributes
    ----------
    server : which runs there.
    gate : at which requests of ``/gated`` wait.
    """

    def __init__(
        self, models: Mapping[str, Path] | None = None, options: ServeOptions | None = None
    ) -> None:
        routes = [HttpRoute(r"/gated", Gated), HttpRoute(r"/large", Large)]
        self.server = ModelServer(models or {}, options or ServeOptions(port=0), routes)
        self.gate = Gate()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def call(self, work: Any) -> Any:
        """The result of a coroutine that runs in the server's loop."""
        return self.begin(work).result(LIMIT)

    def begin(self, work: Any) -> Future[Any]:
        """The same, as a future."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def ask(self, question: Callable[[], T]) -> T:
        """What a function says in the server's loop."""

        async def answer() -> T:
            return question()

        return self.call(answer())  # type: ignore[no-any-return]

    def open_gate(self) -> None:
        """Let those go who wait, and who will come."""
        self.ask(self.gate.event.set)

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens."""
        return "127.0.0.1", self.server.port

    def __enter__(self) -> Self:
        self._thread.start()
        self.server.context.parts["gate"] = self.gate
        self.call(self.server.start())
        return self

    def __exit__(self, *_: object) -> None:
        self.open_gate()
        self.call(self.server.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(LIMIT)
        self._loop.close()
