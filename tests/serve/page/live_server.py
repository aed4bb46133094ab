"""A server in this process, in a thread of its own, so that tests can let it see what they want."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np

from tvm_hetero.serve.core.options import ServeOptions
from tvm_hetero.serve.core.query import InferenceQuery
from tvm_hetero.serve.metrics.server_metrics import ServerMetrics
from tvm_hetero.serve.models.statistics import EndedQuery
from tvm_hetero.serve.server import ModelServer

T = TypeVar("T")


class LiveServer:
    """Serves models until the end of a ``with``; all but `url` is for the event loop's thread."""

    def __init__(self, home: Path, names: tuple[str, ...], **options: Any) -> None:
        self._models = {name: home / f"{name}.hetero" for name in names}
        self._options = ServeOptions(port=0, **options)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._ready: Future[None] = Future()

    @property
    def url(self) -> str:
        """Of its root, without the last slash."""
        return f"http://127.0.0.1:{self.server.port}"

    @property
    def metrics(self) -> ServerMetrics:
        """What it counts."""
        return self.server.metrics

    def call(self, work: Callable[[], Awaitable[T]]) -> T:
        """Await something in the server's loop."""
        return asyncio.run_coroutine_threadsafe(_awaited(work), self._loop).result(60)

    def infer(self, name: str, queries: int, slo: float | None = None) -> None:
        """Compute so many queries, one after the other, as the protocols' handlers would."""

        async def work() -> None:
            model = self.server.context.repository.find(name)
            assert model.tensors is not None
            given = {i.name: np.ones(i.shape, i.dtype) for i in model.tensors.signature.inputs}
            for _ in range(queries):
                await self.server.context.dispatcher.compute(
                    model.tensors, model.statistics, InferenceQuery(given), slo
                )

        self.call(work)

    def end(self, *queries: EndedQuery) -> None:
        """Let these queries have ended."""

        async def work() -> None:
            for query in queries:
                self.metrics.ledger.end_query(query)

        self.call(work)

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.result(60)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(60)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        self._over = asyncio.Event()
        try:
            self.server = ModelServer(self._models, self._options)
            await self.server.start()
        except BaseException as error:
            self._ready.set_exception(error)
            return
        self._ready.set_result(None)
        await self._over.wait()
        await self.server.drain()
        await self.server.stop()


async def _awaited(work: Callable[[], Awaitable[T]]) -> T:
    return await work()
