"""Modes of a kind that nobody needs: whatever is done in them can be done in another one.

A mode covers another one if, of every model that may live in that one, it

    carries no less
    runs on the same copy of the weights         else a change to it may cost a load
    needs no more of any memory that can be short

Then every day that has the one can have the other instead, for as much. By what is carried alone
that would not be so: larger batches carry more and need more memory, so that two models that fit
together with small batches may not with large ones.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm_hetero.planning.sharing.problem import MachineMode, SharedKind


def needed_modes(kind: SharedKind) -> list[int]:
    """The modes, by number, that are kept: those of one model, and all that no other one covers.

    Of modes that cover each other the first one is kept.
    """
    short = short_memories(kind)
    shared = [g for g, mode in enumerate(kind.modes) if not mode.alone]

    def covers(other: int, own: int) -> bool:
        return _covers(kind, kind.modes[other], kind.modes[own], short)

    beaten = {
        own
        for own in shared
        for other in shared
        if other != own and covers(other, own) and (other < own or not covers(own, other))
    }
    return [
        g
        for g, mode in enumerate(kind.modes)
        if mode.alone or (any(mode.carries) and g not in beaten)
    ]


def _covers(kind: SharedKind, other: MachineMode, own: MachineMode, short: Sequence[int]) -> bool:
    """Whether all that is done in a mode can be done in the other one."""
    living = [i for i, carried in enumerate(own.carries) if carried]
    plans = [(i, other.plan(i), own.plan(i)) for i in living]
    return (
        all(other.carries[i] >= own.carries[i] for i in living)
        and all(kind.copy(i, p) == kind.copy(i, q) for i, p, q in plans)
        and all(kind.sizes[i][p][d] <= kind.sizes[i][q][d] for i, p, q in plans for d in short)
    )


def short_memories(kind: SharedKind) -> list[int]:
    """The devices that have no room for all copies at once, each with the most that it needs: who
    may live together there depends on batches."""
    found = []
    for d, room in enumerate(kind.rooms):
        if room is None:
            continue
        most: dict[tuple[int, int], int] = {}
        for mode in kind.modes:
            for i, carried in enumerate(mode.carries):
                if carried:
                    p = mode.plan(i)
                    copy = i, kind.copy(i, p)
                    most[copy] = max(most.get(copy, 0), kind.sizes[i][p][d])
        if sum(most.values()) > room:
            found.append(d)
    return found
