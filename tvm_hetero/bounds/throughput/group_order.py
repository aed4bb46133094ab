"""In what order groups are gone through, so that few of them are open at a time.

What later groups need to know of those before is a *state*, a bit for each of these:

    x(g)   whether g is in the set, for groups with readers to come
    p(t)   whether tensor t is paid for, where some of its readers are past and some to come

so the states are 2 to the number of these at the widest place of the order. Two orders are tried:
depth first from the last groups, and always the group that leaves the fewest open. Both have makers
before readers; colors may make that impossible (a group reads what a later one makes), and then
such a reader is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tvm_hetero.bounds.throughput.group_cuts import CutTensor

# Of groups that are ready the last ones are looked at, and up to so many groups the order by fewest
# open ones is tried wherever tensors are left out.
_LOOKED_AT, _FEW = 32, 400


@dataclass(frozen=True)
class GroupOrder:
    """Groups in order, and for each tensor the readers that come after its maker."""

    groups: tuple[int, ...]
    later: tuple[tuple[int, ...], ...]
    widths: tuple[int, ...]

    @property
    def bits(self) -> int:
        """Of the widest state."""
        return max(self.widths, default=0)


def narrowest(count: int, tensors: Sequence[CutTensor], most: int) -> GroupOrder:
    """The narrower order of `count` groups.

    Of large graphs only depth first is tried where not all of `most` tensors are in.
    """
    makers: list[list[int]] = [[] for _ in range(count)]
    for tensor in tensors:
        for w in tensor.readers:
            makers[w].append(tensor.maker)
    orders = [_ordered(_depth_first(makers), tensors)]
    if count <= _FEW or len(tensors) == most:
        orders.append(_ordered(_fewest_open(makers, tensors), tensors))
    return min(orders, key=lambda order: (order.bits, sum(2**w for w in order.widths)))


def _depth_first(makers: Sequence[Sequence[int]]) -> list[int]:
    """Each group right after what it still needs, in the groups' own order."""
    order: list[int] = []
    seen = [False] * len(makers)
    for root in range(len(makers)):
        stack = [(root, False)]
        while stack:
            g, done = stack.pop()
            if done:
                order.append(g)
            elif not seen[g]:
                seen[g] = True
                stack.append((g, True))
                stack += [(m, False) for m in reversed(makers[g]) if not seen[m]]
    return order


def _fewest_open(makers: Sequence[Sequence[int]], tensors: Sequence[CutTensor]) -> list[int]:
    """Next the ready group after which the fewest are open; of equals the first."""
    count = len(makers)
    waiting = [len(set(own)) for own in makers]
    made: list[list[int]] = [[] for _ in range(count)]
    read: list[list[int]] = [[] for _ in range(count)]
    for i, tensor in enumerate(tensors):
        made[tensor.maker].append(i)
        for w in tensor.readers:
            read[w].append(i)
    left = [len(tensor.readers) for tensor in tensors]
    open_of = [0] * count
    ready = [g for g in range(count) if waiting[g] == 0]
    order: list[int] = []

    def change(g: int) -> int:
        """How many bits more there are after g."""
        bits = 1 if made[g] else 0
        for i in read[g]:
            tensor = tensors[i]
            if left[i] == 1:
                bits -= (open_of[tensor.maker] == 1) + (len(tensor.readers) > 1)
            else:
                bits += left[i] == len(tensor.readers)
        return bits

    while ready:
        g = min(ready[-_LOOKED_AT:], key=lambda g: (change(g), g))
        ready.remove(g)
        order.append(g)
        open_of[g] = len(made[g])
        for i in read[g]:
            left[i] -= 1
            open_of[tensors[i].maker] -= left[i] == 0
        for w in sorted({w for i in made[g] for w in tensors[i].readers}):
            waiting[w] -= 1
            if waiting[w] == 0:
                ready.append(w)
    placed = set(order)
    return order + [g for g in range(count) if g not in placed]


def _ordered(groups: Sequence[int], tensors: Sequence[CutTensor]) -> GroupOrder:
    """The order with its widths: bits of the state after each group."""
    turn = {g: i for i, g in enumerate(groups)}
    change = [0] * (len(groups) + 1)
    until: dict[int, int] = {}
    later = []
    for tensor in tensors:
        after = sorted((w for w in tensor.readers if turn[w] > turn[tensor.maker]), key=turn.get)  # type: ignore[arg-type]
        later.append(tuple(after))
        if after:
            until[tensor.maker] = max(until.get(tensor.maker, 0), turn[after[-1]])
            change[turn[after[0]]] += len(after) > 1
            change[turn[after[-1]]] -= len(after) > 1
    for g, end in until.items():
        change[turn[g]] += 1
        change[end] -= 1
    widths = np.cumsum(change[:-1]).tolist()
    return GroupOrder(tuple(groups), tuple(later), tuple(widths))
