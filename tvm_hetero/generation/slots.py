"""Slots of a stepper: who is in them, and what stands in those that are free."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from tvm_hetero.generation.sequences import Sequence
from tvm_hetero.generation.stepper import PendingLogits


@dataclass(eq=False)
class KeptRows:
    """What stands in the first rows of a free slot.

    Attributes
    ----------
    tokens : whose rows they are.
    since : how many had left a slot before; -1: no one has been in it.
    """

    tokens: list[int] = field(default_factory=list)
    since: int = -1

    def count_reusable(self, sequence: Sequence, chunk: int) -> int:
        """Rows of whole chunks that a sequence need not make; one token at least goes in."""
        if sequence.request.scores_prompt:
            return 0
        common = 0
        for one, other in zip(self.tokens, sequence.tokens[:-1], strict=False):
            if one != other:
                break
            common += 1
        return common - common % chunk

    def spare_row(self, length: int, chunk: int) -> int:
        """A row that no one will read: behind those that are kept, of which the last may go."""
        if len(self.tokens) == length:
            del self.tokens[-chunk:]
        return len(self.tokens)


@dataclass(eq=False)
class Flight:
    """A request in flight: for each sequence that takes part its slot and tokens that go in."""

    group: int
    answer: PendingLogits
    members: list[tuple[int, Sequence, int]]
    step: bool


@dataclass(eq=False)
class SlotGroup:
    """Slots that are stepped together.

    Attributes
    ----------
    slots, kept : who is in each, and what stands in those where no one is.
    flight : what is asked for.
    chunks : that were made in a row while others waited for a step.
    alone : sequences to be stepped one by one.
    """

    number: int
    slots: list[Sequence | None]
    kept: list[KeptRows]
    flight: Flight | None = None
    chunks: int = 0
    alone: deque[Sequence] = field(default_factory=deque)

    @classmethod
    def of_size(cls, number: int, size: int) -> SlotGroup:
        """A group of free slots."""
        return cls(number, [None] * size, [KeptRows() for _ in range(size)])

    @property
    def present(self) -> list[tuple[int, Sequence]]:
        """Slots with their sequences."""
        return [(slot, each) for slot, each in enumerate(self.slots) if each is not None]

    def forget_rows(self) -> None:
        """Caches were lost."""
        self.kept = [KeptRows() for _ in self.slots]


def choose_slot(
    groups: Iterable[SlotGroup], sequence: Sequence, chunk: int
) -> tuple[SlotGroup, int] | None:
    """The free slot where most is there already; else of the emptiest group, the longest free."""

    def cost(place: tuple[SlotGroup, int]) -> tuple[int, int, int]:
        group, slot = place
        kept = group.kept[slot]
        return -kept.count_reusable(sequence, chunk), len(group.present), kept.since

    free = [
        (group, slot)
        for group in groups
        for slot, each in enumerate(group.slots)
        if each is None
    ]  # fmt: skip
    return min(free, key=cost, default=None)
