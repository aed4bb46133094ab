"""Whether it pays to compute some queries of one element by one run of a batch plan.

Of a pool of K places, by what each group takes on k places (L[k], measured):

    work     least place-seconds:  min over k of  k L[k]
    least    fewest seconds:       min over k of  L[k]
    apart    group i of those that would be one ends, from when the first begins, at
                 e_i = max(least_i, (work_1 + ... + work_i) / K)
    joined   all of them end at    E = max(least, work / K)  of the batch plan
    saved    seconds of the whole pool:  (sum of work_i - work) / K

It pays if something is saved, and if what is lost is no more than what is won: those without
deadline wait longer, by f_i (E - e_i) for the f_i of group i, and each of the `behind` queries that
wait, too, has its turn earlier by `saved`. So with nobody behind, joined ones end no later in the
mean than apart; the longer the queue, the less a batch has to gain. Whether deadlines hold is
asked of the policy (`Scheduler.exchange`), not here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

# What is saved of the work has to be more than this: measured times are not exact.
_MARGIN = 0.03

Shares = Sequence[tuple[int, float]]


class GroupTimes(NamedTuple):
    """Some queries that run as one: what they take on which shares, and how many of them have no
    deadline."""

    shares: Shares
    patient: int = 0

    @property
    def work(self) -> float:
        """Least place-seconds."""
        return min(share * seconds for share, seconds in self.shares)

    @property
    def least(self) -> float:
        """Fewest seconds."""
        return min(seconds for _, seconds in self.shares)


def pays(apart: Sequence[GroupTimes], joined: Shares, places: int, behind: int) -> bool:
    """Whether groups are better run as one; see the head of this file.

    Parameters
    ----------
    apart : groups in the order in which they would begin.
    joined : seconds of the batch plan, by shares.
    places : of the pool; behind : queries that wait, and are none of these.
    """
    whole = GroupTimes(joined)
    total = sum(group.work for group in apart)
    saved = (total - whole.work) / places
    if saved * places <= _MARGIN * total:
        return False
    end = max(whole.least, whole.work / places)
    begun = lost = 0.0
    for group in apart:
        begun += group.work / places
        lost += group.patient * (end - max(group.least, begun))
    return lost <= behind * saved
