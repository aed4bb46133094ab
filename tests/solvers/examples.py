"""Problems that several solver tests share."""

from __future__ import annotations

from typing import Any

from tvm_hetero.platform import Device, Fabric, Platform
from tvm_hetero.problem import Cost, Objective, Problem
from tvm_hetero.problem.graph import Edge, Task, TaskGraph
from tvm_hetero.solvers import Options

# Times its limit that a search may take here.
_SLOW = 20.0


def counted(time_limit: float = 60.0, **others: Any) -> Options:
    """Options of a search that ends with its counted work, not with the machine's clock.

    Searches count their work, and the deadline is a net that cuts only what a slow machine drags
    out. On a machine with other work it does cut, and a test that expects an optimum, or the same
    answer twice, would fail by chance. A test whose subject is the deadline takes plain `Options`.
    """
    return Options(time_limit=time_limit, **{"deadline": _SLOW * time_limit, **others})


def problem_of(
    costs: dict[str, dict[str, float]],
    edges: list[tuple[str, str, int]],
    platform: Platform,
    objective: Objective = Objective(),
    **sizes: dict[str, int],
) -> Problem:
    """A problem from plain tables; `sizes` are columns of `Task` by task."""
    tasks = [
        Task(name, **{column: row.get(name, 0) for column, row in sizes.items()}) for name in costs
    ]
    graph = TaskGraph(tasks, [Edge(*edge) for edge in edges])
    table = {t: {d: Cost(((1, s),)) for d, s in row.items()} for t, row in costs.items()}
    return Problem(graph, table, platform, objective)


def processors(count: int, *, overlap: bool = True, **figures: float) -> Platform:
    """Devices p1, p2, ... joined by a fabric."""
    devices = tuple(Device(f"p{i}", overlap=overlap) for i in range(1, count + 1))
    return Platform(devices, fabrics=(Fabric("node0", **figures),))


def topcuoglu() -> Problem:
    """Figure 2 and table 2 of the HEFT paper: 10 tasks on 3 processors, makespan 80 by HEFT."""
    times = {
        1: (14, 16, 9),
        2: (13, 19, 18),
        3: (11, 13, 19),
        4: (13, 8, 17),
        5: (12, 13, 10),
        6: (13, 16, 9),
        7: (7, 15, 11),
        8: (5, 11, 14),
        9: (18, 12, 20),
        10: (21, 7, 16),
    }
    transfers = {
        (1, 2): 18, (1, 3): 12, (1, 4): 9, (1, 5): 11, (1, 6): 14, (2, 8): 19, (2, 9): 16,
        (3, 7): 23, (4, 8): 27, (4, 9): 23, (5, 9): 13, (6, 8): 15, (7, 10): 17, (8, 10): 11,
        (9, 10): 13,
    }  # fmt: skip
    # The paper gives every edge a transfer of its own, so every edge is a tensor of its own.
    tasks = [Task(f"n{i}") for i in times]
    edges = [Edge(f"n{i}", f"n{j}", b, f"n{i}-{j}") for (i, j), b in transfers.items()]
    costs = {
        f"n{i}": {f"p{k}": Cost(((1, float(s)),)) for k, s in enumerate(row, start=1)}
        for i, row in times.items()
    }
    return Problem(TaskGraph(tasks, edges), costs, processors(3, bandwidth=1.0))


def fork_join(width: int, seconds: float = 1.0, *, overlap: bool = True) -> Problem:
    """A source, `width` equal tasks, a sink; two equal devices, quick copies."""
    names = ["in", *(f"b{i}" for i in range(width)), "out"]
    costs = {name: {"p1": seconds, "p2": seconds} for name in names}
    edges = [("in", f"b{i}", 8) for i in range(width)]
    edges += [(f"b{i}", "out", 8) for i in range(width)]
    return problem_of(costs, edges, processors(2, overlap=overlap, bandwidth=64.0))
