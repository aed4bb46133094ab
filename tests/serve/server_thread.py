"""A server in a thread of the tests' process, whose insides can be looked at."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Self, TypeVar

from tests.waiting import LIMIT
from tvm_hetero.serve.core.options import ServeOptions
from tvm_hetero.serve.http.routes import HttpRoute
from tvm_hetero.serve.server import ModelServer

T = TypeVar("T")


class ServerThread:
    """Serves until the end of a ``with``.

    Attributes
    ----------
    server : which runs there; it is its loop's, but for what it never changes.
    """

    def __init__(
        self,
        models: Mapping[str, Path] | None = None,
        options: ServeOptions | None = None,
        routes: Iterable[HttpRoute] = (),
    ) -> None:
        self.server = ModelServer(models or {}, options or ServeOptions(port=0), routes)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine that runs in the server's loop."""
        return self.begin(work).result(LIMIT)

    def begin(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """The same, as a future."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def ask(self, question: Callable[[], T]) -> T:
        """What a function says in the server's loop."""

        async def answer() -> T:
            return question()

        return self.call(answer())

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens."""
        return "127.0.0.1", self.server.port

    @property
    def url(self) -> str:
        """Of its root, without the last slash."""
        return f"http://127.0.0.1:{self.server.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            self.call(self.server.start())
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.call(self.server.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(LIMIT)
        self._loop.close()
