"""Tokens of decoders, by model and version: how many, how soon the first, how soon the next.

What generates calls `TokenLedger.first_token` and `TokenLedger.next_token` as tokens come, so that
a rate is known while long answers are still being written, and `TokenLedger.finish` at the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from tvm_hetero.serve.metrics.histogram import TimeHistogram
from tvm_hetero.serve.metrics.ledger import Ledger
from tvm_hetero.serve.metrics.recent import OneSecond, bin_of

_VERSIONS = 4  # of a model that are kept


@dataclass(frozen=True)
class SequenceTimes:
    """Where the time of a sequence went (s): before its turn, its prompt, its tokens, in all."""

    queued: float
    prefill: float
    decode: float
    whole: float


@dataclass(eq=False)
class TokenCounts:
    """Of one version of a decoder.

    Attributes
    ----------
    prompt, generated : tokens that were read, and written.
    first : from door to first token (s); between : between two tokens of a sequence (s).
    finished : sequences by why they ended (``stop``, ``length``, ...).
    queued, prefill, decode, whole : of `SequenceTimes`.
    """

    prompt: int = 0
    generated: int = 0
    first: TimeHistogram = field(default_factory=TimeHistogram)
    between: TimeHistogram = field(default_factory=TimeHistogram)
    finished: Counter[str] = field(default_factory=Counter)
    queued: TimeHistogram = field(default_factory=TimeHistogram)
    prefill: TimeHistogram = field(default_factory=TimeHistogram)
    decode: TimeHistogram = field(default_factory=TimeHistogram)
    whole: TimeHistogram = field(default_factory=TimeHistogram)


class TokenLedger:
    """What is counted of decoders; for the event loop's thread."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._models: dict[str, dict[str, TokenCounts]] = {}

    def __iter__(self) -> Iterator[tuple[str, str, TokenCounts]]:
        for model, versions in sorted(self._models.items()):
            for version, row in versions.items():
                yield model, version, row

    def newest(self) -> Iterator[tuple[str, TokenCounts]]:
        """The version of each model that was asked last."""
        for model, versions in sorted(self._models.items()):
            yield model, next(reversed(versions.values()))

    def first_token(self, model: str, version: str, prompt: int, seconds: float) -> None:
        """A sequence's first token is there, so many seconds after its request came."""
        row = self._row(model, version)
        row.prompt += prompt
        row.first.add(seconds)
        self._count(model, row).first[bin_of(seconds)] += 1

    def next_token(self, model: str, version: str, seconds: float) -> None:
        """A further token is there, so many seconds after the one before it."""
        row = self._row(model, version)
        row.between.add(seconds)
        self._count(model, row).between[bin_of(seconds)] += 1

    def finish(self, model: str, version: str, reason: str, times: SequenceTimes) -> None:
        """A sequence is over."""
        row = self._row(model, version)
        row.finished[reason] += 1
        row.queued.add(times.queued)
        row.prefill.add(times.prefill)
        row.decode.add(times.decode)
        row.whole.add(times.whole)

    def _count(self, model: str, row: TokenCounts) -> OneSecond:
        row.generated += 1
        now = self._ledger.recent(model).at(self._ledger.second)
        now.tokens += 1
        return now

    def _row(self, model: str, version: str) -> TokenCounts:
        versions = self._models.setdefault(model, {})
        if version not in versions:
            while len(versions) >= _VERSIONS:
                del versions[next(iter(versions))]
            versions[version] = TokenCounts()
        return versions[version]
