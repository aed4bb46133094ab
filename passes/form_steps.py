"""Where a run of calls has to be cut: exactly where someone would wait too long otherwise.

The problem. Items (calls of kernels, copies) stand in one order. Each belongs to a worker, which
does its items in that order, and reads what other items, its *sources*, make. A *step* is a run of
consecutive items of one worker: it starts when everything that any of its items reads from other
workers is there, and only at its end does anybody hear that its items are done. One step for all
of a worker's items would mean waiting for each other's ends, perhaps for ever; one step for each
item means that no one waits longer than needed (the *fine* plan). We want as few steps as can be
without a later start of anything: every item begins in our steps when it does in the fine plan,
whatever the items' times are.

Notation. known(i): the items that have certainly ended when item i of the fine plan starts, i.e.
all from which a way leads to i over "read by" and "next on its worker".

1. *A step begins before item i* if i reads something of another worker that its worker does not
   know to be done already: it is not in known(p), where p is its worker's item before i.
2. *A step ends after item a* if some item r of another worker reads it, and known(r) has no later
   item of a's worker than a. (If it has one, r waits for that later item anyway.)
3. A copy is a step of its own.
4. *A step ends before an item of a rival*: a worker that shares a core with its own, so that never
   both work at once. What comes behind that item in the order must not be done before it.

Claim (without rivals). Nothing starts later than in the fine plan. Proof. Let i begin in the fine
plan at time t. Its step starts with an item f; between f and i there is no begin, so by 1. all that
these items read of other workers is in known(f): the step starts as soon as f may, if what f waits
for has been *told* by then. Let f wait for a on another worker w, and let b be the last item of w
in known(f), so b >= a. A way leads from b to f; its first arrow that leaves w starts at b itself
(else a later item of w would be in known(f)), and ends at some r that is f, or in known(f); so
known(r) has no later item of w than b, and 2. ends a step after b. So a is told no later than b has
ended, and b has ended when f starts in the fine plan. By induction over the order all times are
those of the fine plan.

Nor can a cut be left out, each by itself: where 1. cuts, the items before i would wait for what
only i needs, and where 2. cuts, r may wait for what comes after a; some times of the items make
either wait longer. A step's start costs less than a microsecond in our executor, so what is cut
costs next to nothing, and what is not cut, nothing.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class StepItem:
    """A call or a copy.

    Attributes
    ----------
    worker : who does it.
    sources : the items that make what it reads, by their numbers; smaller than its own.
    alone : whether it is a step of its own.
    rivals : workers that share a core with its own.
    """

    worker: Hashable
    sources: tuple[int, ...]
    alone: bool = False
    rivals: tuple[Hashable, ...] = ()


def form_steps(items: Sequence[StepItem]) -> list[list[int]]:
    """The steps, each a list of numbers of items, in the order of their first items."""
    known = known_before(items)
    ends = _ends(items, known)
    steps: list[list[int]] = []
    open_step: dict[Hashable, list[int]] = {}
    aware: dict[Hashable, int] = {}
    for i, item in enumerate(items):
        for rival in item.rivals:
            open_step.pop(rival, None)
        far = [j for j in item.sources if items[j].worker != item.worker]
        waits = any(not aware.get(item.worker, 0) >> j & 1 for j in far)
        if waits or item.alone or item.worker not in open_step:
            open_step[item.worker] = []
            steps.append(open_step[item.worker])
        open_step[item.worker].append(i)
        aware[item.worker] = known[i] | 1 << i
        if item.alone or i in ends:
            del open_step[item.worker]
    return steps


def known_before(items: Sequence[StepItem]) -> list[int]:
    """known(i) of the file's text for every item, as sets of bits."""
    known: list[int] = []
    aware: dict[Hashable, int] = {}
    for i, item in enumerate(items):
        before = aware.get(item.worker, 0)
        for j in item.sources:
            before |= known[j] | 1 << j
        known.append(before)
        aware[item.worker] = before | 1 << i
    return known


def _ends(items: Sequence[StepItem], known: Sequence[int]) -> set[int]:
    """The items after which a step ends (rule 2)."""
    of_worker: dict[Hashable, int] = {}
    for i, item in enumerate(items):
        of_worker[item.worker] = of_worker.get(item.worker, 0) | 1 << i
    return {
        a
        for r, reader in enumerate(items)
        for a in reader.sources
        if items[a].worker != reader.worker
        and not (known[r] & of_worker[items[a].worker]) >> (a + 1)
    }
