"""A decoder as it is served: one continuous batching in a thread, for as long as it is loaded.

The thread runs `generation.batching` and posts what happens; the event loop is woken once for all
that has come since it looked last, so that a hundred sequences cost it no more wake-ups than one.
All that is public here, but for `close`, is for the loop's thread.

    submit   sequences of one request, all or none: they wait for slots, at most so many
    read     what has happened to them since
    close    of `RunningSequences`: those that have not ended leave their slots at once
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tvm_hetero.decoders.text_files import folder_of_texts
from tvm_hetero.errors import HeteroError, RunError, UsageError
from tvm_hetero.generation.batching import Batching
from tvm_hetero.generation.generate import alone_on
from tvm_hetero.generation.sequences import (
    Entered,
    Event,
    GenerationRequest,
    Happening,
)
from tvm_hetero.serve.core.refusal import DEADLINE, QUEUE_FULL, RefusedError
from tvm_hetero.serve.models.gated_stepper import Gate, GatedStepper
from tvm_hetero.serve.models.served_decoder import ServedDecoder
from tvm_hetero.serve.text.folder import read_texts

_LOG = logging.getLogger("tvm_hetero.serve")
_LATEST = 0.2  # how much the sequence that ended last counts in the mean


class RunningSequences:
    """Sequences of one request, for the one who reads them.

    Attributes
    ----------
    numbers : by which the batching knows them, in the order in which they were asked for.
    """

    def __init__(self, model: DecoderModel) -> None:
        self._model = model
        self.numbers: list[int] = []
        self._happened: list[tuple[int, Happening]] = []
        self._error: HeteroError | None = None
        self._news = asyncio.Event()

    async def read(self) -> list[tuple[int, Happening]]:
        """Wait, and take what has happened: each with the sequence's place among those asked for.

        Raises
        ------
        RunError
            If the model was closed.
        """
        await self._news.wait()
        self._news.clear()
        if self._error is not None:
            raise self._error
        happened, self._happened = self._happened, []
        return happened

    def cancel(self, place: int) -> None:
        """End one of them; nothing more is told of it."""
        self._model.forget(self.numbers[place])

    def close(self) -> None:
        """End all that have not."""
        for number in self.numbers:
            self._model.forget(number)

    def put(self, place: int, happening: Happening) -> None:
        """Called by the model."""
        self._happened.append((place, happening))
        self._news.set()

    def fail(self, error: HeteroError) -> None:
        """Called by the model when it ends."""
        self._error = error
        self._news.set()


class DecoderModel:
    """A decoder that generates for many requests at once.

    Parameters
    ----------
    path : of its folder.
    gate : where its steps wait for their turn, if others want the cores, too.

    Attributes
    ----------
    name, version : by which clients ask for it.
    decoder, texts : what runs, and how it reads and writes; None: it knows numbers alone.
    facts, steps : what the decoder is, and what runs its steps.
    length, stop : tokens of the longest text; those that end one.
    created : when it was built, in seconds since 1970.
    """

    def __init__(
        self,
        name: str,
        version: str,
        decoder: ServedDecoder,
        path: Path,
        gate: Gate | None = None,
    ) -> None:
        self.name, self.version, self.decoder = name, version, decoder
        self.texts = read_texts(folder_of_texts(path, decoder.facts.source))
        self.length, self.slots = decoder.length, decoder.groups * decoder.batch
        ends = {*decoder.stop, *(self.texts.stop if self.texts else ())}
        self.stop = frozenset(token for token in ends if token < decoder.vocabulary)
        self.facts, self.steps = decoder.facts, decoder.steps
        self.created = int(path.stat().st_mtime)
        self._readers: dict[int, tuple[RunningSequences, int]] = {}
        self._waiting: set[int] = set()
        self._entered: dict[int, float] = {}
        self._pace = 0.0  # seconds that a sequence is in its slot
        self._loop: asyncio.AbstractEventLoop | None = None
        self._post: list[Happening] = []
        self._lock = threading.Lock()
        self._ended: HeteroError | None = None
        self._gated = None if gate is None else GatedStepper(decoder, gate)
        self._batching = Batching(self._gated or decoder, keeps_rows=True)
        self._thread = threading.Thread(
            target=self._generate, name=f"tvm_hetero tokens of {name}", daemon=True
        )
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Sequences that have no slot."""
        return len(self._waiting)

    @property
    def running(self) -> int:
        """Sequences in slots."""
        return len(self._readers) - len(self._waiting)

    def check_room(self, count: int, most_waiting: int, deadline: float | None = None) -> None:
        """Refuse `count` sequences more where too many would wait, or for too long.

        Raises
        ------
        RefusedError
            If they may not wait.
        UsageError
            If they never may.
        """
        if count > self.slots + most_waiting:
            raise UsageError(
                f"{count} texts are asked for at once; {self.slots + most_waiting} may be at most"
            )
        waits = max(0, len(self._readers) + count - self.slots)
        if waits > most_waiting:
            raise RefusedError(
                f"{self.waiting} sequences of the model wait already; {most_waiting} may at most",
                reason=QUEUE_FULL, retry_after=self._predict(self.waiting),
            )  # fmt: skip
        if waits and deadline is not None and time.monotonic() + self._predict(waits) > deadline:
            raise RefusedError(
                f"it would wait {self._predict(waits):.3g} s for its turn, past its deadline",
                reason=DEADLINE, retry_after=self._predict(waits),
            )  # fmt: skip

    def submit(
        self, requests: Sequence[GenerationRequest], most_waiting: int, deadline: float | None
    ) -> RunningSequences:
        """Begin all of these.

        Raises
        ------
        RefusedError, UsageError
            As in `check_room`; or if the decoder cannot do one of them. None has begun then.
        RunError
            If it is closed.
        """
        if self._ended is not None:
            raise self._ended
        self.check_room(len(requests), most_waiting, deadline)
        for request in requests:
            request.check(self.decoder.length, self.decoder.vocabulary)
        self._loop = asyncio.get_running_loop()
        if self._gated is not None:
            self._gated.loop = self._loop
        running = RunningSequences(self)
        for place, request in enumerate(requests):
            number = self._batching.add(request)
            running.numbers.append(number)
            self._readers[number] = running, place
            self._waiting.add(number)
        return running

    def forget(self, number: int) -> None:
        """End a sequence, of which no one wants to know more; nothing if it has ended."""
        if self._readers.pop(number, None) is not None:
            self._waiting.discard(number)
            self._entered.pop(number, None)
            self._batching.cancel(number)

    def close(self) -> None:
        """Stop: what is in flight fails. From any thread."""
        self._batching.end()
        self._thread.join()
        self.decoder.close()

    def _predict(self, waits: int) -> float:
        """Seconds until so many that wait have got slots."""
        return waits * self._pace / self.slots

    def _generate(self) -> None:
        """The thread."""
        error: HeteroError = RunError("the model was closed")
        try:
            with alone_on(self.decoder):
                for happened in self._batching.rounds(stays=True):
                    self._tell(happened)
        except Exception as caught:
            _LOG.exception("%s generates no more", self.name)
            error = RunError("the model has failed; the server's log says more")
            error.__cause__ = caught
        self._ended = error
        self._tell([])

    def _tell(self, happened: list[Happening]) -> None:
        """Post to the loop, which is woken if it has nothing to look at yet."""
        with self._lock:
            is_first = not self._post or self._ended is not None
            self._post += happened
        if is_first and self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        with self._lock:
            post, self._post = self._post, []
        for happening in post:
            reader = self._readers.get(happening.sequence)
            if reader is not None:
                reader[0].put(reader[1], happening)
                self._follow(happening)
        if self._ended is not None:
            for running, _ in self._readers.values():
                running.fail(self._ended)
            self._readers.clear()

    def _follow(self, happening: Happening) -> None:
        """Keep in mind who waits, who runs, and how long that takes."""
        number = happening.sequence
        if isinstance(happening, Entered):
            self._waiting.discard(number)
            self._entered[number] = time.monotonic()
        elif isinstance(happening, Event) and happening.reason is not None:
            del self._readers[number]
            begun = self._entered.pop(number, None)
            if begun is not None:
                took = time.monotonic() - begun
                self._pace += (took - self._pace) * (_LATEST if self._pace else 1.0)
