"""Prompts in, tokens out: all at once, or token by token as they come."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tvm_hetero.errors import HeteroError, RunError, UsageError
from tvm_hetero.generation.batching import Batching
from tvm_hetero.generation.sampling import GREEDY, Sampling
from tvm_hetero.generation.sequences import Event, GenerationRequest
from tvm_hetero.generation.stepper import Stepper
from tvm_hetero.util.quote import quote

# Told of each token as it comes: sequence, token.
Told = Callable[[int, int], object]


@dataclass
class Generation:
    """What came of a prompt.

    Attributes
    ----------
    prompt, tokens : what was given, and what was generated.
    reason : why it ended: ``stop`` (a stop token, the last of `tokens`), ``limit``
        (max_new_tokens), ``full`` (the caches have no more rows), ``failed`` (see `error`).
    """

    prompt: tuple[int, ...]
    tokens: list[int] = field(default_factory=list)
    reason: str = ""
    error: HeteroError | None = None


def make_requests(
    stepper: Stepper,
    prompts: Iterable[Iterable[int]],
    max_new_tokens: int,
    *,
    sampling: Sampling = GREEDY,
    stop: Iterable[int] = (),
) -> list[GenerationRequest]:
    """Requests that the stepper can do.

    Raises
    ------
    UsageError
        If it cannot do one of them, which is named.
    """
    ends = frozenset(_tokens(stop, "stop"))
    if not isinstance(prompts, Iterable):
        raise UsageError(
            f"expected a list of prompts, such as [[1, 2, 3], [4]], got {quote(prompts, 60)}"
        )
    requests = [
        GenerationRequest(_tokens(prompt, f"prompt {i}"), max_new_tokens, sampling, ends)
        for i, prompt in enumerate(prompts)
    ]
    for i, request in enumerate(requests):
        request.check(stepper.length, stepper.vocabulary, f"prompt {i}")
    return requests


def _tokens(given: Any, what: str) -> tuple[int, ...]:
    """The numbers of a prompt or of stop tokens, NumPy's too.

    Raises
    ------
    UsageError
        If it is none (a text, one number, ...).
    """
    try:
        tokens = tuple(token.__index__() for token in given)
    except (TypeError, AttributeError):
        raise UsageError(
            f"{what}: expected token ids, such as [1, 2, 3], got {quote(given, 60)}"
        ) from None
    return tokens


def stream_events(stepper: Stepper, requests: Sequence[GenerationRequest]) -> Iterator[Event]:
    """What happens to each request, by its position; see `Batching.events`."""
    batching = Batching(stepper)
    for request in requests:
        batching.add(request)
    yield from batching.events()


class Generates:
    """The half of a stepper that generates; who inherits is a `Stepper`.

    A generation has the caches to itself, so there is one at a time: give it all prompts.

    Attributes
    ----------
    closed : whether it was closed; nothing is generated any more.
    """

    closed = False

    def generate(
        self: Any,
        prompts: Iterable[Iterable[int]],
        max_new_tokens: int,
        *,
        sampling: Sampling = GREEDY,
        stop: Iterable[int] | None = None,
        told: Told | None = None,
    ) -> list[Generation]:
        """Go on with prompts.

        Parameters
        ----------
        prompts : token ids; as many as you like, they share the slots as these become free.
        max_new_tokens : of each prompt.
        sampling : how tokens are chosen (default: greedily).
        stop : tokens that end a sequence; None: those of the model.
        told : called with (sequence, token) for each token as it comes.

        Returns
        -------
        list
            A `Generation` for each prompt, in their order. One that failed has an error, and the
            others are as if it had not been.

        Raises
        ------
        UsageError
            If a prompt cannot be done (nothing has begun then), or a generation is running.
        RunError
            If it is closed.
        """
        requests = self._requests(prompts, max_new_tokens, sampling, stop)
        made = [Generation(request.prompt) for request in requests]
        with alone_on(self):
            for event in stream_events(self, requests):
                if event.token is not None:
                    made[event.sequence].tokens.append(event.token)
                    if told is not None:
                        told(event.sequence, event.token)
                if event.reason is not None:
                    made[event.sequence].reason = event.reason
                    made[event.sequence].error = event.error
        return made

    def stream(
        self: Any,
        prompts: Iterable[Iterable[int]],
        max_new_tokens: int,
        *,
        sampling: Sampling = GREEDY,
        stop: Iterable[int] | None = None,
    ) -> Iterator[tuple[int, int]]:
        """As `generate`, token by token: (sequence, token), of each sequence in order.

        Ending the iterator early gives the rest up. A sequence that fails raises its error here,
        when all others have ended.
        """
        requests = self._requests(prompts, max_new_tokens, sampling, stop)
        return _stream(self, requests)

    def require_open(self: Any) -> None:
        """Refuse to go on when it is closed.

        Raises
        ------
        RunError
            If it is.
        """
        if self.closed:
            raise RunError("the decoder is closed: make a new one")

    def check_rows(self: Any, tokens: Sequence[int], positions: Sequence[int]) -> None:
        """Refuse what is out of range: kernels clamp a row, which would be a silent wrong answer.

        Raises
        ------
        UsageError
            If there is no such token, or no such row in the caches.
        """
        for token in tokens:
            if not 0 <= token < self.vocabulary:
                raise UsageError(f"there is no token {token}; expected 0 to {self.vocabulary - 1}")
        for position in positions:
            if not 0 <= position < self.length:
                raise UsageError(
                    f"there is no row {position} in the caches; expected 0 to {self.length - 1}"
                )

    def pad_chunk(self: Any, tokens: Sequence[int], position: int) -> list[np.ndarray[Any, Any]]:
        """What a prefill reads: the tokens, padded to a chunk, their first row, and the last one.

        Raises
        ------
        UsageError
            If they are none, or more than a chunk, or out of range (`check_rows`).
        """
        if not 0 < len(tokens) <= self.chunk:
            raise UsageError(f"got {len(tokens)} tokens, expected 1 to {self.chunk} (the chunk)")
        self.check_rows(tokens, [position + len(tokens) - 1])
        padded = np.zeros(self.chunk, np.int32)
        padded[: len(tokens)] = tokens
        return [padded, np.array([position], np.int32), np.array([len(tokens) - 1], np.int32)]

    def _requests(
        self: Any,
        prompts: Iterable[Iterable[int]],
        max_new_tokens: int,
        sampling: Sampling,
        stop: Iterable[int] | None,
    ) -> list[GenerationRequest]:
        self.require_open()
        ends = getattr(self, "stop", ()) if stop is None else stop
        return make_requests(self, prompts, max_new_tokens, sampling=sampling, stop=ends)


def _stream(stepper: Any, requests: Sequence[GenerationRequest]) -> Iterator[tuple[int, int]]:
    error = None
    with alone_on(stepper):
        for event in stream_events(stepper, requests):
            if event.token is not None:
                yield event.sequence, event.token
            error = error or event.error
    if error is not None:
        raise error


@contextmanager
def alone_on(stepper: Any) -> Iterator[None]:
    """Refuse a second generation on the same caches.

    Raises
    ------
    UsageError
        If one is running.
    """
    lock = stepper.__dict__.setdefault("_generating", threading.Lock())
    if not lock.acquire(blocking=False):
        raise UsageError(
            "a generation is running on these caches already: give it all prompts, or wait"
        )
    try:
        yield
    finally:
        lock.release()
