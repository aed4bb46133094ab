"""Random graphs of any size, for scaling: layers of tasks, and series-parallel graphs.

Layered graphs are the usual random workload of scheduling studies (T. Tobita, H. Kasahara: A
standard task graph set, Journal of Scheduling 5, 2002, doi:10.1002/jos.116). Tasks are drawn from a
small stock of shapes, so that costs look like a network's and equal tasks occur.
"""

from __future__ import annotations

import random

from tvm_hetero.errors import UsageError
from tvm_hetero.zoo.work_graph import Builder, Kind, Value, WorkGraph

# Kind, millions of operations, thousands of weights; the shape of the tensors is the same for all.
_STOCK: tuple[tuple[Kind, float, int], ...] = (
    ("conv", 50, 9), ("conv", 115, 37), ("conv", 230, 74), ("conv", 460, 147),
    ("depthwise", 7, 1), ("depthwise", 30, 3), ("gemm", 33, 250), ("gemm", 270, 130),
    ("attention", 60, 0), ("elementwise", 0.4, 0), ("rnn", 130, 130),
)  # fmt: skip
_SHAPES = ((32, 28, 28), (64, 28, 28), (128, 28, 28), (64, 14, 14))
# Tasks of layered graphs read up to so many tensors, made up to so many layers before.
_READS, _REACH = (1, 1, 2, 2, 3), 3


def layered(tasks: int = 1000, width: int = 8, seed: int = 0) -> WorkGraph:
    """`tasks` tasks in layers of 1 to 2 `width` - 1, between an input and an output.

    Each reads one task of the layer before and up to two of the three layers before.
    """
    _check(tasks, width)
    rnd = random.Random(seed)
    net = Builder(f"layered-{tasks}x{width}-seed{seed}")
    layers: list[list[Value]] = [[net.input(64, 28, 28)]]
    unread: dict[str, Value] = {}
    left = tasks
    while left:
        count = min(left, rnd.randint(1, 2 * width - 1))
        recent = [value for layer in layers[-_REACH:] for value in layer]
        made = []
        for _ in range(count):
            others = rnd.sample(recent, min(len(recent), rnd.choice(_READS) - 1))
            chosen = {value.src: value for value in (rnd.choice(layers[-1]), *others)}
            for src in chosen:
                unread.pop(src, None)
            made.append(_task(net, rnd, list(chosen.values())))
        unread.update((value.src, value) for value in made)
        layers.append(made)
        left -= count
    net.output(*unread.values())
    return net.build()


def series_parallel(tasks: int = 1000, branches: int = 4, seed: int = 0) -> WorkGraph:
    """`tasks` tasks in a random series-parallel graph, between an input and an output.

    A part of n tasks is divided at random into two in series, or into 2 to `branches` side by side
    and a task that joins them.
    """
    _check(tasks, branches)
    rnd = random.Random(seed)
    net = Builder(f"series-parallel-{tasks}x{branches}-seed{seed}")

    def grow(count: int, x: Value) -> Value:
        """Make `count` tasks that all come after `x`; the last one is returned."""
        if count < 4 or rnd.random() < 0.3:
            half = count // 2
            return _chain(net, rnd, count, x) if count < 8 else grow(count - half, grow(half, x))
        parts = _divide(rnd, count - 1, min(rnd.randint(2, branches), count - 1))
        return _task(net, rnd, [grow(part, x) for part in parts])

    net.output(grow(tasks, net.input(64, 28, 28)))
    return net.build()


def _chain(net: Builder, rnd: random.Random, count: int, x: Value) -> Value:
    for _ in range(count):
        x = _task(net, rnd, [x])
    return x


def _divide(rnd: random.Random, count: int, parts: int) -> list[int]:
    """`count` into `parts` random numbers of at least 1."""
    cuts = sorted(rnd.sample(range(1, count), parts - 1))
    return [b - a for a, b in zip([0, *cuts], [*cuts, count], strict=True)]


def _task(net: Builder, rnd: random.Random, reads: list[Value]) -> Value:
    kind, millions, thousands = rnd.choice(_STOCK)
    shape = rnd.choice(_SHAPES)
    return net.add(kind, kind, reads, shape, flops=millions * 1e6, weights=1000 * thousands)


def _check(tasks: int, width: int) -> None:
    if tasks < 1 or width < 1:
        raise UsageError(f"{tasks} tasks, {width} side by side: expected at least 1 of each")
