"""Randomly wired networks: S. Xie, A. Kirillov, R. Girshick, K. He, ICCV 2019, arXiv 1904.01569.

Stages of randomly wired nodes (Table 1 of the paper). A node sums what it reads, weighted, and
applies a separable 3x3 convolution; it is one task. Nodes that read no other node of their stage
read the stage before and halve height and width; the means of those that none reads is its output.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm_hetero.errors import UsageError
from tvm_hetero.zoo.layers import conv, global_pool
from tvm_hetero.zoo.layers import dense as dense_layer
from tvm_hetero.zoo.random_wiring import neighbours_of, wires
from tvm_hetero.zoo.work_graph import Builder, Value, WorkGraph

# The paper's best settings of the three models: neighbours or new wires, chance.
SETTINGS = {"ws": (4, 0.75), "er": (4, 0.2), "ba": (5, 0.0)}


def randwire(
    model: str = "ws", channels: int = 78, nodes: int = 32, regime: str = "small", seed: int = 0
) -> WorkGraph:
    """A randomly wired network.

    Parameters
    ----------
    model : ``ws``, ``er`` or ``ba`` (see `tvm_hetero.zoo.random_wiring.wires`).
    channels : C of the paper: 78 in the small regime, 109 or 154 in the regular one.
    nodes : in a stage (N).
    regime : ``small`` (three random stages) or ``regular`` (a fourth, of N / 2 nodes, before them).
    """
    if regime not in ("small", "regular") or model not in SETTINGS:
        raise UsageError(
            f"regime {regime!r}, model {model!r}: expected small or regular, and one of "
            f"{', '.join(SETTINGS)}"
        )
    net = Builder(f"randwire-{model}-{nodes}-c{channels}-seed{seed}")
    x = conv(net, net.input(3, 224, 224), max(1, channels // 2), 3, 2)
    stages = [(nodes, channels << i) for i in range(3)]
    if regime == "regular":
        stages = [(max(1, nodes // 2), channels), *((nodes, channels << i) for i in (1, 2, 3))]
    else:
        # A plain convolution: with it the operations agree with the paper's 583 million.
        x = conv(net, x, channels, 3, 2)
    for number, (count, width) in enumerate(stages):
        x = _stage(net, x, count, width, model, 10 * seed + number)
    x = conv(net, x, 1280, 1)
    net.output(dense_layer(net, global_pool(net, x), 1000, op="classifier"))
    return net.build()


def _stage(net: Builder, x: Value, nodes: int, channels: int, model: str, seed: int) -> Value:
    neighbours, chance = SETTINGS[model]
    reads, last = neighbours_of(nodes, wires(model, nodes, seed, neighbours, chance))
    made: list[Value] = []
    for node in range(nodes):
        before = [made[i] for i in reads[node]]
        made.append(_separable(net, before or [x], channels, 1 if before else 2))
    ends = [value for value, is_last in zip(made, last, strict=True) if is_last]
    return net.add("mean", "elementwise", ends, ends[0].shape, flops=len(ends) * ends[0].size)


def _separable(net: Builder, reads: Sequence[Value], channels: int, stride: int) -> Value:
    """Weighted sum, 3x3 convolution of each channel, 1x1 convolution, normalisation: one task."""
    c, h, w = reads[0].shape
    shape = (channels, h // stride, w // stride)
    weights = 9 * c + c * channels
    return net.add(
        "separable3x3",
        "depthwise",
        reads,
        shape,
        flops=2.0 * weights * shape[1] * shape[2] + 2.0 * len(reads) * reads[0].size,
        weights=weights + 2 * channels + len(reads),
    )
