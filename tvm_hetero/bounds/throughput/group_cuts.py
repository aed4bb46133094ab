"""What it costs a device to hold some groups of tasks and not their neighbours, and in what order.

Of a set S of groups (tasks of one color; mostly one task) a device of kind c is busy at least for

    load(S, c) = sum over g in S of rate(g, c)
               + sum over tensors made outside of S and read inside of   arrive(t, c)
               + sum over tensors made inside of S and read outside of   leave(t, c)

with the least seconds of a hop into and out of such a device (`views.ideals.least_hops`). Groups
are gone through in an order; then all that later groups need to know of those before is a *state*

    x(g)   whether g is in S, for groups with readers to come
    p(t)   whether tensor t is paid for, where some of its readers are past and some to come

so the number of states is 2 to the number of these at the widest place of the order
-> `steps_of`. Two orders are tried: depth first from the last groups, and always the group that
leaves the fewest open. Both have makers before readers; colors may make that impossible (a group
reads what a later one makes), and then such a reader is left out: the load is only smaller.
Where the states are too many, the tensors that cost least are left out, as many as it takes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tvm_hetero.bounds.throughput.share_program import rates
from tvm_hetero.views.array_types import FloatArray
from tvm_hetero.views.ideals import Kind, kinds_of, least_hops
from tvm_hetero.views.instance import Instance

# Bits of the widest state.
MOST_BITS = 8
# Of groups that are ready the last ones are looked at, and up to so many groups the order by fewest
# open ones is tried wherever tensors are left out.
_LOOKED_AT, _FEW = 32, 400


@dataclass(frozen=True)
class CutTensor:
    """A tensor that leads from one group to others.

    Attributes
    ----------
    maker, readers : groups.
    arrive, leave : least seconds on each kind of devices.
    """

    maker: int
    readers: tuple[int, ...]
    arrive: FloatArray
    leave: FloatArray


@dataclass(frozen=True)
class GroupCuts:
    """The figures at the head of this file; `rate` is (groups, kinds), s."""

    kinds: tuple[Kind, ...]
    rate: FloatArray
    tensors: tuple[CutTensor, ...]


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


def group_cuts(instance: Instance) -> GroupCuts:
    """The groups of an instance and the tensors between them."""
    arrive, leave = least_hops(instance)
    kinds = kinds_of(instance, arrive, leave)
    first = [kind.devices[0] for kind in kinds]
    table, of = rates(instance)[:, first], instance.group_of
    rate = np.array([table[list(group)].sum(axis=0) for group in instance.groups])
    joined: dict[tuple[int, tuple[int, ...]], tuple[FloatArray, FloatArray]] = {}
    for t, flow in enumerate(instance.tensors):
        maker = of[flow.maker]
        readers = tuple(sorted({of[w] for w in flow.readers} - {maker}))
        if readers:
            into, out = joined.get((maker, readers), (0.0, 0.0))
            joined[maker, readers] = (into + arrive[t, first], out + leave[t, first])
    tensors = (CutTensor(*ends, *costs) for ends, costs in joined.items())
    return GroupCuts(kinds, rate, tuple(tensors))


def steps_of(cuts: GroupCuts, c: int) -> list[Step]:
    """The order for devices of a kind, with all that costs nothing there left out."""
    dear = [t for t in cuts.tensors if t.arrive[c] > 0 or t.leave[c] > 0]
    dear.sort(key=lambda t: -float(t.arrive[c] + t.leave[c]))
    low, high = 0, len(dear)
    best = _narrowest(cuts, dear, len(dear))
    if _bits(best) <= MOST_BITS:
        return _write_steps(best, dear, c)
    # The most tensors that fit: widths rise with them, nearly always.
    chosen = _narrowest(cuts, [], len(dear))
    while high - low > 1:
        middle = (low + high) // 2
        order = _narrowest(cuts, dear[:middle], len(dear))
        if _bits(order) <= MOST_BITS:
            low, chosen = middle, order
        else:
            high = middle
    return _write_steps(chosen, dear[:low], c)


@dataclass(frozen=True)
class _GroupOrder:
    """Groups in order, and for each tensor the readers that come after its maker."""

    groups: tuple[int, ...]
    later: tuple[tuple[int, ...], ...]
    widths: tuple[int, ...]


def _bits(order: _GroupOrder) -> int:
    return max(order.widths, default=0)


def _narrowest(cuts: GroupCuts, tensors: Sequence[CutTensor], most: int) -> _GroupOrder:
    """The narrower order; of large graphs the first alone where not all of `most` are in."""
    count = len(cuts.rate)
    makers: list[list[int]] = [[] for _ in range(count)]
    for tensor in tensors:
        for w in tensor.readers:
            makers[w].append(tensor.maker)
    orders = [_ordered(_depth_first(makers), tensors)]
    if count <= _FEW or len(tensors) == most:
        orders.append(_ordered(_fewest_open(makers, tensors), tensors))
    return min(orders, key=lambda order: (_bits(order), sum(2**w for w in order.widths)))


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


def _ordered(groups: Sequence[int], tensors: Sequence[CutTensor]) -> _GroupOrder:
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
    return _GroupOrder(tuple(groups), tuple(later), tuple(widths))


def _write_steps(order: _GroupOrder, tensors: Sequence[CutTensor], c: int) -> list[Step]:
    """The steps, with slots instead of names."""
    open_tensors: dict[int, int] = {}
    made: dict[int, list[int]] = {}
    read: dict[int, list[int]] = {}
    for i, (tensor, after) in enumerate(zip(tensors, order.later, strict=True)):
        if after:
            made.setdefault(tensor.maker, []).append(i)
            open_tensors[tensor.maker] = open_tensors.get(tensor.maker, 0) + 1
        for w in after:
            read.setdefault(w, []).append(i)
    steps: list[Step] = []
    slots: list[tuple[str, int]] = []
    left = [len(after) for after in order.later]
    for g in order.groups:
        place = {slot: i for i, slot in enumerate(slots)}
        reads, gone, paid = [], set(), []
        for i in read.get(g, []):
            tensor = tensors[i]
            left[i] -= 1
            reads.append(
                ReadTensor(
                    place["x", tensor.maker],
                    place.get(("p", i), -1),
                    float(tensor.arrive[c]),
                    float(tensor.leave[c]),
                    left[i] > 0,
                )
            )
            gone.add(("p", i))
            if left[i] > 0:
                paid.append(("p", i))
            else:
                open_tensors[tensor.maker] -= 1
                if open_tensors[tensor.maker] == 0:
                    gone.add(("x", tensor.maker))
        keeps = tuple(i for i, slot in enumerate(slots) if slot not in gone)
        opens = g in made
        steps.append(Step(g, tuple(reads), keeps, opens))
        slots = [slots[i] for i in keeps] + ([("x", g)] if opens else []) + paid
    return steps


def fractional_reach(rate: FloatArray, prices: FloatArray, limit: float) -> float:
    """The most price that a device could hold within a load, copies left out and groups cut, s."""
    able = np.isfinite(rate) & (prices > 0)
    own, price = rate[able], prices[able]
    free = own <= 0
    total = float(price[free].sum())
    own, price = own[~free], price[~free]
    best = np.argsort(-price / own, kind="stable")
    load = np.cumsum(own[best])
    whole = int(np.searchsorted(load, limit, side="right"))
    total += float(price[best][:whole].sum())
    if whole < len(best):
        before = load[whole - 1] if whole else 0.0
        total += float(price[best][whole] / own[best][whole]) * (limit - before)
    return total if math.isfinite(total) else float(prices.sum())
