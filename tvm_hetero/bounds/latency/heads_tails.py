"""Heads and tails: how early a task can end, and how much must follow it.

    head(v, d) = p(v, d) + max over inputs t of v, min over devices k of
                 (head(maker(t), k) + copy(t, k, d))
    tail(v, d) = max over outputs t of v, readers w of t, min over devices k of
                 (copy(t, d, k) + p(w, k) + tail(w, k))

where v runs on d. Copies take their whole path with nothing in the way. Both are relaxations
(devices are never busy, a maker may be on another device for each reader), so in every schedule
with v on d, v ends no earlier than head(v, d), and no less than tail(v, d) passes after it. Hence
max over v, min over d of head + tail is a lower bound of the makespan: the critical path that
knows devices and copies. How close to the best known values the critical path comes, `python -m
benchmarks.schedule --suite bounds` prints.

`critical_path.heads_and_tails` has the same recursion for the bounds, on `Figures`: all edges of a
level at once, with modules cut apart, least times of a divided batch, and copies as latency plus
bytes times inverse bandwidth. Its values are these but for the last digits, and both stay: the
copies here are those of the judge (`Instance.copies`, hop by hop), which the exact models need, and
the sums of the tails go (copy + run) + tail here and (tail + run) + copy there. What is done with
heads and tails is one function for both                        -> `critical_path.critical_path`
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from tvm_hetero.views.array_types import FloatArray
from tvm_hetero.views.instance import Instance

Table = list[list[float]]


def heads_and_tails(
    instance: Instance,
    run: Callable[[int, int], float],
    copies: Callable[[int], FloatArray],
) -> tuple[Table, Table]:
    """Heads and tails of every (task, device); inf where a task cannot run.

    Parameters
    ----------
    run : time of task v on device d, in any unit.
    copies : times to bring tensor t from every device (row) to every device (column) in the same
        unit; inf for no path. Of tensors that are equally large it may be the same array.
    """
    n, k = len(instance), len(instance.names)
    runs = np.full((n, k), math.inf)
    for v, devices in enumerate(instance.devices):
        runs[v, list(devices)] = [run(v, d) for d in devices]
    head, tail = np.full((n, k), math.inf), np.full((n, k), math.inf)
    for v in instance.order:
        ready = np.zeros(k)
        for t in instance.inputs[v]:
            there = head[instance.tensors[t].maker][:, None] + copies(t)
            np.maximum(ready, there.min(axis=0), out=ready)
        head[v] = ready + runs[v]
    for v in reversed(instance.order):
        after = np.zeros(k)
        for t in instance.outputs[v]:
            for w in instance.tensors[t].readers:
                # In this order of sums, see the file's text: answers depend on the last digit.
                rest = copies(t) + runs[w] + tail[w]
                np.maximum(after, rest.min(axis=1), out=after)
        places = list(instance.devices[v])
        tail[v, places] = after[places]
    return head.tolist(), tail.tolist()
