"""A server in a thread of the tests, whose insides can be looked at and slowed down."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from tests.waiting import LIMIT
from tvm_hetero.decoders.decoder import Decoder
from tvm_hetero.serve.core.options import ServeOptions
from tvm_hetero.serve.models.decoder_model import DecoderModel
from tvm_hetero.serve.models.repository import ServedModel
from tvm_hetero.serve.models.statistics import EndedGeneration
from tvm_hetero.serve.server import ModelServer

T = TypeVar("T")


class InProcess:
    """A server, and its loop.

    Attributes
    ----------
    server, url : what runs, and where.
    ended : texts that are over.
    firsts, nexts : how many first tokens have come, and how many others.
    """

    def __init__(self, models: Mapping[str, Path], options: ServeOptions) -> None:
        self.server = ModelServer(models, options)
        self.ended: list[EndedGeneration] = []
        self.firsts = self.nexts = 0
        self.server.context.generation_observers.append(self)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()

    def first_token(self, *_: object) -> None:
        self.firsts += 1

    def next_token(self, *_: object) -> None:
        self.nexts += 1

    def generation_ended(self, ended: EndedGeneration) -> None:
        self.ended.append(ended)

    def call(self, work: Callable[[], T]) -> T:
        """The result of a function in the loop's thread."""

        async def run() -> T:
            return work()

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(LIMIT)

    def start(self) -> None:
        asyncio.run_coroutine_threadsafe(self.server.start(), self._loop).result(LIMIT)
        self.url = f"http://127.0.0.1:{self.server.port}"

    def stop(self) -> None:
        asyncio.run_coroutine_threadsafe(self.server.stop(), self._loop).result(LIMIT)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(LIMIT)
        self._loop.close()

    def drain(self) -> None:
        asyncio.run_coroutine_threadsafe(self.server.drain(), self._loop).result(LIMIT)

    def served(self, name: str) -> ServedModel:
        return self.call(lambda: self.server.context.repository.find(name))

    def decoder_model(self, name: str) -> DecoderModel:
        found = self.served(name).decoder
        assert found is not None
        return found


@contextmanager
def serving(models: Mapping[str, Path], **options: object) -> Iterator[InProcess]:
    """A server that is ready, for as long as the block takes."""
    inside = InProcess(models, ServeOptions(port=0, **options))
    try:
        inside.start()
        yield inside
    finally:
        inside.stop()


def slow_down(decoder: Decoder, seconds: float) -> None:
    """Let every step of a decoder take that much longer."""
    quick = decoder.step

    def step(*arguments: object) -> object:
        time.sleep(seconds)
        return quick(*arguments)

    decoder.step = step
