"""Groups in their order, each as a step from the states before it to those after it.

The figures are those of `group_cuts`, order and states those of `group_order`; a *slot* is the
position of a bit in the state. Where states are too many, the tensors that cost least are left
out, as many as it takes: the load of a set is only smaller                          -> `steps_of`
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tvm_hetero.bounds.throughput.group_cuts import CutTensor, GroupCuts
from tvm_hetero.bounds.throughput.group_order import GroupOrder, narrowest

# Bits of the widest state.
MOST_BITS = 8


@dataclass(frozen=True)
class ReadTensor:
    """What a group has to do with a tensor that it reads; slots are positions in the state.

    Attributes
    ----------
    maker : slot of x(maker).
    paid : slot of p(t), -1 where this is the first reader.
    arrive, leave : s.
    kept : whether other readers follow.
    """

    maker: int
    paid: int
    arrive: float
    leave: float
    kept: bool


@dataclass(frozen=True)
class Step:
    """One group in its turn.

    Attributes
    ----------
    group : its number.
    reads : tensors that it reads, of those that cost something.
    keeps : slots of the state before that are in the state after, in order.
    opens : whether x(group) follows them, before p(t) of the tensors in `reads` that are kept.
    """

    group: int
    reads: tuple[ReadTensor, ...]
    keeps: tuple[int, ...]
    opens: bool


def steps_of(cuts: GroupCuts, c: int) -> list[Step]:
    """The order for devices of a kind, with all that costs nothing there left out."""
    dear = [t for t in cuts.tensors if t.arrive[c] > 0 or t.leave[c] > 0]
    dear.sort(key=lambda t: -float(t.arrive[c] + t.leave[c]))
    low, high, count = 0, len(dear), len(cuts.rate)
    best = narrowest(count, dear, len(dear))
    if best.bits <= MOST_BITS:
        return _write_steps(best, dear, c)
    # The most tensors that fit: widths rise with them, nearly always.
    chosen = narrowest(count, [], len(dear))
    while high - low > 1:
        middle = (low + high) // 2
        order = narrowest(count, dear[:middle], len(dear))
        if order.bits <= MOST_BITS:
            low, chosen = middle, order
        else:
            high = middle
    return _write_steps(chosen, dear[:low], c)


def _write_steps(order: GroupOrder, tensors: Sequence[CutTensor], c: int) -> list[Step]:
    writer = _StepWriter(order, tensors, c)
    return [writer.step(g) for g in order.groups]


class _StepWriter:
    """The state as it is between two groups, by what its bits say."""

    def __init__(self, order: GroupOrder, tensors: Sequence[CutTensor], c: int) -> None:
        self.tensors, self.kind = tensors, c
        self.slots: list[tuple[str, int]] = []
        self.left = [len(after) for after in order.later]
        later = list(zip(tensors, order.later, strict=True))
        # Of each group the tensors that it makes with readers to come.
        self.open = Counter(tensor.maker for tensor, after in later if after)
        self.read: dict[int, list[int]] = {}
        for i, (_, after) in enumerate(later):
            for w in after:
                self.read.setdefault(w, []).append(i)

    def step(self, g: int) -> Step:
        """The step of a group; the state is then the one after it."""
        place = {slot: i for i, slot in enumerate(self.slots)}
        own = self.read.get(g, [])
        reads = tuple(self._read(i, place) for i in own)
        gone = {("p", i) for i in own}
        for i, read in zip(own, reads, strict=True):
            maker = self.tensors[i].maker
            self.open[maker] -= not read.kept
            if self.open[maker] == 0:
                gone.add(("x", maker))
        keeps = tuple(i for i, slot in enumerate(self.slots) if slot not in gone)
        opens = g in self.open
        paid = [("p", i) for i, read in zip(own, reads, strict=True) if read.kept]
        self.slots = [self.slots[i] for i in keeps] + ([("x", g)] if opens else []) + paid
        return Step(g, reads, keeps, opens)

    def _read(self, i: int, place: dict[tuple[str, int], int]) -> ReadTensor:
        """A tensor, with one reader less to come."""
        tensor, c = self.tensors[i], self.kind
        self.left[i] -= 1
        paid = place.get(("p", i), -1)
        arrive, leave = float(tensor.arrive[c]), float(tensor.leave[c])
        return ReadTensor(place["x", tensor.maker], paid, arrive, leave, self.left[i] > 0)
