"""Which tasks of a node are done together: the fewest rounds, then few parts.

The problem. Each task of a graph is placed on a node. A *part* is a set of tasks of one node that
runs without asking anybody: it begins when all that it reads from elsewhere is there, and tells
what it made when all of it is done. Parts must not wait for each other in a cycle. What passes
between parts costs a message, and a part that is called costs a call, so we want few rounds, and
few parts.

Notation. node(t); cost(p, t) = 1 if node(p) != node(t), else 0; a level for each task with

    level(t) >= level(p) + cost(p, t)        for every p that t reads.                        (1)

A part is then all tasks of one node and one level. By (1) every message goes to a higher level, so
there are no cycles, and tasks of one node and level never wait for each other's messages.

1. *Earliest*: early(t) = max over p of early(p) + cost(p, t), the messages on the longest way to t.
   No cut of any kind has fewer rounds than max early(t) + 1.
2. *Wanted*: a task whose latest level (counted back from its readers) is its earliest cannot move.
   The (node, level) of these tasks are parts in any case.
3. *Choice*: backwards, each task takes the latest level of its node that is wanted and lies between
   its earliest and what its readers leave it; where there is none, the latest that they leave it,
   which is wanted from then on. So what needs nothing (a table of positions) goes with its reader
   instead of being a part of its own.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence


def assign_levels(
    tasks: Sequence[str], reads: Mapping[str, Sequence[str]], node: Mapping[str, Hashable]
) -> dict[str, int]:
    """A level for each task (see the file's text).

    Parameters
    ----------
    tasks : each after those that it reads.
    reads : for each task the tasks whose tensors it reads.
    node : where each task runs.
    """
    readers: dict[str, list[str]] = {task: [] for task in tasks}
    early: dict[str, int] = {}
    for task in tasks:
        early[task] = max((early[p] + (node[p] != node[task]) for p in reads[task]), default=0)
        for maker in reads[task]:
            readers[maker].append(task)
    late: dict[str, int] = {}
    for task in reversed(tasks):
        left = [late[r] - (node[r] != node[task]) for r in readers[task]]
        late[task] = min(left) if left else early[task]
    wanted = {(node[task], early[task]) for task in tasks if early[task] == late[task]}
    chosen: dict[str, int] = {}
    for task in reversed(tasks):
        left = [chosen[r] - (node[r] != node[task]) for r in readers[task]]
        most = min(left) if left else early[task]
        fitting = (n for n in range(most, early[task] - 1, -1) if (node[task], n) in wanted)
        chosen[task] = next(fitting, most)
        wanted.add((node[task], chosen[task]))
    return chosen
