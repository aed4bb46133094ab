"""DenseNet by depth: G. Huang, Z. Liu, L. van der Maaten, K. Weinberger: Densely Connected
Convolutional Networks, CVPR 2017, doi:10.1109/CVPR.2017.243, Table 1.

Every layer reads the outputs of all layers before it in its block. The concatenation is no task: a
layer's first convolution reads the tensors themselves, so that each is moved on its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm_hetero.errors import UsageError
from tvm_hetero.zoo.layers import classifier, conv, pool
from tvm_hetero.zoo.work_graph import Builder, Value, WorkGraph

# Depth: layers in each of the four blocks, growth rate, channels of the stem.
BLOCKS = {
    121: ((6, 12, 24, 16), 32, 64),
    161: ((6, 12, 36, 24), 48, 96),
    169: ((6, 12, 32, 32), 32, 64),
    201: ((6, 12, 48, 32), 32, 64),
    264: ((6, 12, 64, 48), 32, 64),
}


def densenet(depth: int = 121, resolution: int = 224) -> WorkGraph:
    """DenseNet of that depth: 121, 161, 169, 201 or 264."""
    if depth not in BLOCKS:
        raise UsageError(f"depth {depth}: expected one of {', '.join(map(str, BLOCKS))}")
    blocks, growth, stem = BLOCKS[depth]
    net = Builder(f"densenet{depth}")
    x = conv(net, net.input(3, resolution, resolution), stem, 7, 2)
    x = pool(net, x, 3, 2)
    for number, layers in enumerate(blocks):
        values = [x]
        for _ in range(layers):
            y = _product(net, values, 4 * growth)
            values.append(conv(net, y, growth, 3))
        if number < len(blocks) - 1:
            x = _product(net, values, sum(v.shape[0] for v in values) // 2)
            x = pool(net, x, 2, 2, op="avgpool2x2")
        else:
            x = _norm(net, values)
    classifier(net, x)
    return net.build()


def _product(net: Builder, values: Sequence[Value], channels: int) -> Value:
    """A 1x1 convolution on the concatenation, normalised before (its numbers are weights too)."""
    c = sum(value.shape[0] for value in values)
    _, h, w = values[0].shape
    flops = 2.0 * c * channels * h * w
    weights = c * channels + 2 * c
    return net.add("conv1x1", "conv", values, (channels, h, w), flops=flops, weights=weights)


def _norm(net: Builder, values: Sequence[Value]) -> Value:
    """The last normalisation, on the concatenation."""
    c = sum(value.shape[0] for value in values)
    _, h, w = values[0].shape
    return net.add("norm", "elementwise", values, (c, h, w), flops=3.0 * c * h * w, weights=2 * c)
