"""The precedence program of a batch with as many load cuts as help.

With a batch the busiest devices bound the makespan, less what lies before their first and behind
their last work: exactly what load cuts say (see `precedence`). The ladder adds a few rounds of
them; here rounds go on until none raises the bound. Valid for every division, as each round is.

What a batch adds to the program: the sizes of executions, whose copies carry all their elements
(`precedence`, `_add_sizes`: most of what is gained), and that an element
is in one execution of a device at a time (`_add_turns`: little). What it does not know: elements
that wait for each other before a common execution, and that a task shared by two devices is in
no execution of all elements (the program's shares may be halves of such executions).

*Which of bound and schedule is off.* Mostly the bound (`python -m benchmarks.schedule --suite
batches` prints the gaps). On pieces of Inception v1 that are so small that CP-SAT, with the
execution of every element a variable, proves the optimum of at most two executions of a task on a
device, the search of `batches` finds it, and the bound lies well below. It is worse where the
processor may help: the program lets it work on single elements in turn, in executions that would
have to arrive one by one. Times are means over the elements here, and a mean moves little where a
maximum would move far: a whole execution waits for its last element and its slowest copy.

Tried on Inception v1 at 16 elements, with little or no gain (all of these hold, by argument, and
none is here): the hull of whole patterns of a task (its counts add up to B); two executions that
share an element and whose tasks are ordered exclude one another, by every threshold of their
sizes; for two elements that are together in one of two tasks of an edge and on one device in the
other, one waits for the other; the same for weighted sets of earlier or later tasks, by
Queyranne's inequality; elements in two or three classes by when they leave a task, each with times
and sizes of its own; the Lagrangian of ways of one element with whole decisions; and for every
task v, with L the least priced load of what follows it, mean end of v + L (1 + mean size of v / B)
/ 2 <= T, and its mirror image; whole numbers of executions of every task on every device, by
modules with prices; heads and tails of each size, by the same program for so many elements; time in
two kinds, that in which several devices are in one module and the rest, in which what they hold and
what waits in modules are disjoint elements. Why the two before gain nothing:
docs/method/divided-batches.md. Integral numbers of executions with the waits of edges do close much
of a small module.

At 64 elements part of it is the schedule: a search that divides tasks among processor and GPUs has
to order what follows anew, or it sees but devices that wait (src/search/stream_dispatch.h; the test
``interleaved_at_once`` in tests/solvers/batches). At 16 a good part is the processor's singles in
turn: without the processor the two come nearer. What changed neither noticeably: much more work of
the search (thrice that of 60 s: 0.5 % below on sched-nvl, with another seed 0.5 % above on
sched-pcie), windows by the best value, more sizes of executions, the modules' own bounds with
barriers between them.
"""

from __future__ import annotations

import math

from tvm_hetero.bounds.core.linear import ROUNDING, WORK_A_SECOND
from tvm_hetero.bounds.latency.critical_path import limit_of, path_of
from tvm_hetero.bounds.latency.precedence import PrecedenceModel, work_of
from tvm_hetero.bounds.latency.subgraph import Subgraph
from tvm_hetero.util.search_clock import now
from tvm_hetero.views.arrays import figures_of
from tvm_hetero.views.instance import Instance

_CALLS = 8
_GAIN = 1e-4


def batch_bound(instance: Instance, seconds: float, deadline: float = math.inf) -> float:
    """A proven lower bound of the latency for any division of the batch, s; 0 if too big.

    Parameters
    ----------
    instance : undivided.
    seconds : roughly what the program may take, counted as work.
    deadline : of `now`, after which no further round begins; only a net.
    """
    figures = figures_of(instance)
    work = seconds * WORK_A_SECOND
    size = work_of(figures, len(figures), len(figures.src))
    if size > work:
        return 0.0
    limit = limit_of(figures, path_of(figures))
    model = PrecedenceModel(Subgraph.whole(figures), limit, limit / 8).build()
    best = 0.0
    for _ in range(min(_CALLS, int(work // size))):
        # Cuts stay in the program, so every call goes on where the last one stopped.
        value = model.bound()
        if value <= best * (1 + _GAIN):
            break
        best = value
        if now() > deadline:
            break
    return best * ROUNDING
