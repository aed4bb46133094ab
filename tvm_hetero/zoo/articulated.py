"""Modules between points that all paths pass: what splitting leaves to solve.

Made-up networks that separate the two difficulties: one large module, or many small ones.
"""

from __future__ import annotations

import random

from tvm_hetero.zoo.layers import concat, conv
from tvm_hetero.zoo.random_wiring import neighbours_of, wires
from tvm_hetero.zoo.work_graph import Builder, Kind, Value, WorkGraph

# Separable convolutions of this shape, times a factor that makes them unlike.
_CHANNELS, _SIDE = 78, 28
_FACTORS = (1, 3, 8, 15, 30)
_KINDS: tuple[Kind, ...] = ("depthwise", "conv", "conv", "gemm")


def modules(tasks: int = 30, seed: int = 0) -> WorkGraph:
    """Watts-Strogatz wiring of exactly `tasks` different tasks between input and output.

    Every task reads what its neighbours with smaller numbers make; those that read none of them
    read the input, those that none reads make the output.
    """
    rnd = random.Random(seed)
    net = Builder(f"module-{tasks}-seed{seed}")
    start = net.input(_CHANNELS, _SIDE, _SIDE)
    reads, last = neighbours_of(tasks, wires("ws", tasks, seed, 4 if tasks > 5 else 2))
    made: list[Value] = []
    for node in range(tasks):
        inputs = [made[i] for i in reads[node]] or [start]
        made.append(_task(net, inputs, rnd.choice(_FACTORS), rnd.choice(_KINDS)))
    net.output(*[value for value, is_last in zip(made, last, strict=True) if is_last])
    return net.build()


def _task(net: Builder, inputs: list[Value], factor: int, kind: Kind) -> Value:
    c, side = _CHANNELS, _SIDE
    weights = 9 * c + c * c
    return net.add(
        kind,
        kind,
        inputs,
        (c, side, side),
        flops=2.0 * factor * weights * side * side,
        weights=weights,
        traffic=3 * c * side * side,
    )


def wide(blocks: int = 8, branches: int = 6, seed: int = 0) -> WorkGraph:
    """`blocks` modules one after the other, each of `branches` chains of 1 to 4 convolutions."""
    rnd = random.Random(seed)
    net = Builder(f"wide-{blocks}x{branches}-seed{seed}")
    x = net.input(64, 28, 28)
    for _ in range(blocks):
        ends = []
        for _ in range(branches):
            y = x
            for _ in range(rnd.randint(1, 4)):
                y = conv(net, y, rnd.choice((32, 64, 128)), rnd.choice((1, 3, 5, 7)), bias=1)
            ends.append(conv(net, y, 32, 1, bias=1))
        x = concat(net, ends)
    net.output(x)
    return net.build()
