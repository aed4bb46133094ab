"""Recurrent networks, unrolled: S. Hochreiter, J. Schmidhuber, Neural Computation 9(8), 1997,
doi:10.1162/neco.1997.9.8.1735 (LSTM); K. Cho et al., arXiv 1406.1078 (GRU).

A grid of layers x steps: each cell reads the cell below and the cell before. No task but the ends
lies on all paths. The steps of a layer share their weights; a problem cannot say so and counts them
for every step, in memory and in traffic alike, so memory is over-estimated.
"""

from __future__ import annotations

from tvm_hetero.errors import UsageError
from tvm_hetero.zoo.layers import dense
from tvm_hetero.zoo.work_graph import Builder, Value, WorkGraph, check_count

# Products of (input and state) with a square matrix each: four gates, or three.
_GATES = {"lstm": 4, "gru": 3}


def recurrent(
    cell: str = "lstm", layers: int = 2, steps: int = 32, width: int = 1024, sequences: int = 16
) -> WorkGraph:
    """`cell` (``lstm`` or ``gru``) of `width`, unrolled; one element holds `sequences` of them."""
    if cell not in _GATES:
        raise UsageError(f"cell {cell!r}: expected one of {', '.join(_GATES)}")
    net = Builder(f"{cell}-{layers}x{steps}")
    check_count(net.name, layers * steps)
    below = net.parts(net.input(steps, sequences, width), [(sequences, width)] * steps)
    for _ in range(layers):
        below = _layer(net, cell, below)
    last = net.add("last", "elementwise", below, (sequences * width,))
    net.output(dense(net, last, 1000, op="classifier"))
    return net.build()


def _layer(net: Builder, cell: str, below: list[Value]) -> list[Value]:
    sequences, width = below[0].shape
    weights = 2 * _GATES[cell] * width * width
    made: list[Value] = []
    for x in below:
        made.append(
            net.add(
                cell,
                "rnn",
                [x, *made[-1:]],
                (sequences, width),
                flops=2.0 * sequences * weights,
                weights=weights + 2 * _GATES[cell] * width,
            )
        )
    return made
