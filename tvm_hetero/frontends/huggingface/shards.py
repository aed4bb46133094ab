"""How a layer is divided among shards: which heads, hidden units and experts each of them has."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from tvm_hetero.errors import UsageError
from tvm_hetero.frontends.huggingface.config import Config

# Hidden units (and words) of a shard are a multiple of this where there are enough: matrices
# are packed in blocks of columns, and weights of few bits have one scale for a group of rows.
_UNIT = 128


@dataclass(frozen=True)
class Heads:
    """Heads of one shard: those of keys and values, and those of queries that read them."""

    kv: slice
    queries: slice

    @property
    def kv_count(self) -> int:
        """How many heads of keys there are."""
        return int(self.kv.stop - self.kv.start)

    @property
    def count(self) -> int:
        """How many heads of queries there are."""
        return int(self.queries.stop - self.queries.start)

    def of(self, which: slice, size: int) -> slice:
        """The numbers of some heads, in all heads' numbers side by side."""
        return slice(which.start * size, which.stop * size)


def head_groups(config: Config, shards: int) -> list[Heads]:
    """The heads of each shard."""
    per_kv = config.heads // config.kv_heads
    return [
        Heads(kv, slice(kv.start * per_kv, kv.stop * per_kv))
        for kv in split_evenly(config.kv_heads, shards)
    ]


def unit_groups(config: Config, shards: int) -> list[slice]:
    """The hidden units of each shard."""
    return _in_blocks(config.inner, shards)


def word_groups(config: Config, shards: int) -> list[slice]:
    """The words whose logits each shard computes; no more shards than there are words."""
    return _in_blocks(config.vocabulary, min(shards, config.vocabulary))


def _in_blocks(count: int, shards: int) -> list[slice]:
    """``count`` columns of a matrix, divided where blocks end into which they are packed."""
    unit = next(u for u in (_UNIT, _UNIT // 2, _UNIT // 4, 1) if count // u >= shards)
    parts = [slice(p.start * unit, p.stop * unit) for p in split_evenly(count // unit, shards)]
    return [*parts[:-1], slice(parts[-1].start, count)]


def split_evenly(count: int, parts: int) -> list[slice]:
    """``count`` things in order, in parts that differ by one at most."""
    bounds = [count * part // parts for part in range(parts + 1)]
    return [slice(start, stop) for start, stop in pairwise(bounds)]


def check_shards(config: Config, shards: int) -> None:
    """Refuse more shards than there is to divide.

    Raises
    ------
    UsageError
        If there are, or fewer than one.
    """
    most = min(config.kv_heads, config.experts or config.inner)
    if not 1 <= shards <= most:
        raise UsageError(
            f"shards={shards}: expected 1 to {most}; a layer has {config.kv_heads} heads of keys "
            f"and {config.experts or config.inner} {'experts' if config.experts else 'units'}"
        )
