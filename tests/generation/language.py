"""A little language in pure Python, as a stepper that watches how it is used.

The logits of a token are a function of all tokens up to it, as its caches hold them: a row that was
not written, or overwritten since by padding or an idle slot, makes a test fail or the text differ.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from tvm_hetero.errors import NodeLost, RunError
from tvm_hetero.generation.sampling import GREEDY, Sampling, choose_token
from tvm_hetero.generation.sequences import GenerationRequest

VOCABULARY = 23
_PADDING = -1
_POISON = VOCABULARY - 1  # a token that a broken stepper stumbles over
_MOST_SECONDS = 10.0  # that answers wait for groups which do not come


def logits_of(tokens: Sequence[int]) -> np.ndarray:
    """Of the last of these tokens: any fixed function of all of them."""
    return np.random.default_rng(list(tokens)).standard_normal(VOCABULARY).astype(np.float32)


def expected(request: GenerationRequest, sequence: int, length: int) -> list[int]:
    """What follows a prompt, worked out without slots, chunks and caches."""
    tokens = list(request.prompt)
    while len(tokens) < len(request.prompt) + request.max_new_tokens and len(tokens) <= length:
        sampling: Sampling = request.sampling or GREEDY
        tokens.append(choose_token(logits_of(tokens), sampling, sequence, len(tokens)))
        if tokens[-1] in request.stop:
            break
    return tokens[len(request.prompt) :]


class Language:
    """A stepper over that language.

    Attributes
    ----------
    steps, chunks : how many of them were asked for.
    lose_at : requests (counted from 0) at which all caches are lost.
    poisoned : whether requests fail that bear the last token of the vocabulary.
    """

    vocabulary = VOCABULARY

    def __init__(
        self,
        groups: int = 1,
        batch: int = 2,
        length: int = 16,
        chunk: int = 4,
        lose_at: Sequence[int] = (),
        poisoned: bool = False,
        together: int = 1,
    ) -> None:
        self.groups, self.batch, self.length, self.chunk = groups, batch, length, chunk
        self.lose_at, self.poisoned = set(lose_at), poisoned
        self.steps = self.chunks = self.requests = self.losses = 0
        # The first answers wait until so many groups are busy at once.
        self._together, self._met = together, threading.Event()
        self.widest = 0  # groups that were busy at the same time, at most
        self.misuse: list[str] = []
        self._lost = False
        self._busy: set[int] = set()
        self._lock = threading.Lock()
        self._random = random.Random(0)
        self._workers = ThreadPoolExecutor(groups)
        self._caches = self._fresh()

    def close(self) -> None:
        self._workers.shutdown()
        assert not self.misuse, self.misuse
        assert not self._busy

    def prefill(self, group: int, slot: int, tokens: Sequence[int], position: int) -> Future:
        self.chunks += 1
        self._check(0 < len(tokens) <= self.chunk, f"a chunk of {len(tokens)}")
        self._check(0 <= position <= self.length - len(tokens), "rows beyond the end")
        return self._ask(group, lambda: self._prefill(group, slot, list(tokens), position))

    def step(self, group: int, tokens: Sequence[int], positions: Sequence[int]) -> Future:
        self.steps += 1
        self._check(len(tokens) == len(positions) == self.batch, "a slot was forgotten")
        self._check(all(0 <= p < self.length for p in positions), "rows beyond the end")
        return self._ask(group, lambda: self._step(group, list(tokens), list(positions)))

    def recover(self) -> None:
        self._check(not self._busy, "recovered while requests are in flight")
        self._caches = self._fresh()
        self._lost = False

    def _fresh(self) -> list[list[list[int | None]]]:
        slot = [None] * self.length
        return [[list(slot) for _ in range(self.batch)] for _ in range(self.groups)]

    def _ask(self, group, work) -> Future:
        with self._lock:
            self._check(group not in self._busy, f"two requests at once in group {group}")
            self._busy.add(group)
            self.widest = max(self.widest, len(self._busy))
            if self.widest >= self._together:
                self._met.set()
        answer: Future = Future()
        self._workers.submit(self._answer, group, work, answer)
        return answer

    def _answer(self, group, work, answer: Future) -> None:
        try:
            self._met.wait(_MOST_SECONDS)
            with self._lock:  # a step is a function of the caches: one at a time
                try:
                    result, error = self._count(work), None
                except Exception as caught:
                    result, error = None, caught
                self._busy.discard(group)
            if error is None:
                answer.set_result(result)
            else:
                answer.set_exception(error)
        except BaseException as error:
            self.misuse.append(repr(error))

    def _count(self, work):
        if self.requests in self.lose_at:
            self._lost, self._caches = True, self._fresh()
            self.losses += 1
        self.requests += 1
        if self._lost:
            raise NodeLost("a node was lost")
        return work()

    def _prefill(self, group, slot, tokens, position) -> np.ndarray:
        rows = self._caches[group][slot]
        padded = tokens + [_PADDING] * (self.chunk - len(tokens))
        for p, token in enumerate(padded, position):
            if p < self.length:
                rows[p] = token
        return self._read(rows[: position + len(tokens)])

    def _step(self, group, tokens, positions) -> np.ndarray:
        result = []
        for rows, token, p in zip(self._caches[group], tokens, positions, strict=True):
            rows[p] = token
            idle = None in rows[:p] or _PADDING in rows[:p]
            result.append(np.full(VOCABULARY, np.nan) if idle else self._read(rows[: p + 1]))
        return np.stack(result)

    def _read(self, rows) -> np.ndarray:
        if None in rows or _PADDING in rows:
            raise RunError(f"reads rows that were not written: {rows}")
        if self.poisoned and _POISON in rows:
            raise RunError("stumbled over a token")
        return logits_of(rows)

    def _check(self, fine: bool, what: str) -> None:
        if not fine:
            self.misuse.append(what)
