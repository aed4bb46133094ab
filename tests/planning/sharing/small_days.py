"""Small random days, and the cheapest plan of one by trying all that may stand in each hour."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import combinations, product

from tvm_hetero.planning.sharing.problem import (
    MachineMode,
    SharedKind,
    SharingPolicy,
    SharingProblem,
)

PARTS = 4
# Of a machine: its mode and who lives there; None: off.
Standing = tuple[tuple[int, frozenset[int]] | None, ...]


def random_day(seed: int) -> SharingProblem:
    """Two models on up to three machines of one or two kinds, in two or three hours."""
    draw, plan = random.Random(seed), random.Random(f"plans {seed}")
    machines = draw.choice(((2,), (1, 1), (2, 1), (3,)))
    kinds = []
    for m, available in enumerate(machines):
        alone = tuple(draw.randint(0, 12) for _ in range(2))
        shared = tuple(max(0, c - draw.randint(0, 3)) for c in alone)
        # By which of two plans each runs in the two modes, and whether these share a copy.
        plans = [tuple(plan.randrange(2) for _ in range(2)) for _ in range(2)]
        modes = (
            MachineMode("alone", alone, alone=True, plans=plans[0]),
            MachineMode("5 ms", shared, plans=plans[1]),
        )
        sizes = tuple(((draw.randint(1, 4),), (plan.randint(1, 4),)) for _ in range(2))
        room = draw.choice((None, 4, 6))
        kinds.append(SharedKind(
            f"m{m}", available, draw.randint(5, 20), modes, draw.randint(0, 6),
            tuple(draw.randint(0, 5) for _ in range(2)), (room,), sizes,
            tuple((0, plan.randrange(2)) for _ in range(2)),
        ))  # fmt: skip
    hours = 3 if sum(machines) < 3 else 2
    need = tuple(tuple(draw.randint(0, 14) for _ in range(2)) for _ in range(hours))
    return SharingProblem(("a", "b"), tuple(kinds), need, PARTS)


def cheapest_day(problem: SharingProblem, policy: SharingPolicy) -> int | None:
    """What the cheapest day costs; None if there is none."""
    hours = len(problem.need)
    ways = list(standings(problem, policy))
    open_to = [[w for w in ways if serves(problem, w, need)] for need in problem.need]
    if not policy.moving:
        always = [w for w in ways if all(w in own for own in open_to)]
        days = ([w] * hours for w in always)
        return min((day_cost(problem, day) for day in days), default=None)
    best: int | None = None
    for first in open_to[0]:
        # The cheapest way to each standing of an hour, from this one of the first.
        reached = {first: 0}
        for own in [*open_to[1:], [first]]:
            reached = {
                now: min(costs)
                for now in own
                if (costs := [cost + paid for was, cost in reached.items()
                              if (paid := move_cost(problem, was, now)) is not None])
            }  # fmt: skip
        if first in reached and (best is None or reached[first] < best):
            best = reached[first]
    return best


def standings(problem: SharingProblem, policy: SharingPolicy) -> Iterator[Standing]:
    """All that may stand on the machines in an hour, whatever is asked."""
    every = []
    for m in problem.machines:
        ways: list[tuple[int, frozenset[int]] | None] = [None]
        for g, mode in enumerate(problem.kinds[m].modes):
            open_to = [i for i, c in enumerate(mode.carries) if c]
            most = 1 if mode.alone or not policy.shared else len(open_to)
            ways += [(g, frozenset(own)) for n in range(1, most + 1)
                     for own in combinations(open_to, n)]  # fmt: skip
        every.append(ways)
    yield from product(*every)


def serves(problem: SharingProblem, standing: Standing, need: tuple[int, ...]) -> bool:
    """Whether some division of every machine's parts answers what is needed."""
    divisions = []
    for m, own in zip(problem.machines, standing, strict=True):
        if own is None:
            divisions.append([(0, 0)])
            continue
        g, models = own
        rates = problem.kinds[m].modes[g].carries
        divisions.append([
            (rates[0] * a, rates[1] * b)
            for a in range(problem.parts + 1) for b in range(problem.parts + 1 - a)
            if (0 in models or not a) and (1 in models or not b)
        ])  # fmt: skip
    reached = {(0, 0)}
    for ways in divisions:
        reached = {(x + a, y + b) for x, y in reached for a, b in ways}
    return any(all(r >= n * problem.parts for r, n in zip(row, need, strict=True))
               for row in reached)  # fmt: skip


def day_cost(problem: SharingProblem, day: list[Standing]) -> int:
    """Of standings that never change, each within its memory or not at all."""
    paid = [move_cost(problem, day[t - 1], day[t]) for t in range(len(day))]
    return sum(10**9 if each is None else each for each in paid)


def move_cost(problem: SharingProblem, was: Standing, now: Standing) -> int | None:
    """The price of an hour after another one; None where weights have no room."""
    total = 0
    for m, old, new in zip(problem.machines, was, now, strict=True):
        kind = problem.kinds[m]
        before, after = copies(kind, old), copies(kind, new)
        needed = sum(max(own.get(c, 0) for own in (before, after)) for c in {**before, **after})
        if kind.rooms[0] is not None and needed > kind.rooms[0]:
            return None
        if new:
            total += kind.price + (0 if old else kind.start)
            total += sum(kind.loads[i] for i, _ in after.keys() - before.keys())
    return total


def copies(kind: SharedKind, own: tuple[int, frozenset[int]] | None) -> dict[tuple[int, int], int]:
    """What each copy on a machine needs of its only memory."""
    if own is None:
        return {}
    plans = {i: kind.modes[own[0]].plans[i] for i in own[1]}
    return {(i, kind.copies[i][p]): kind.sizes[i][p][0] for i, p in plans.items()}
