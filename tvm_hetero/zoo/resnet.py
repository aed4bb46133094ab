"""ResNet by depth: K. He, X. Zhang, S. Ren, J. Sun: Deep Residual Learning for Image Recognition,
CVPR 2016, doi:10.1109/CVPR.2016.90, Table 1 (224 x 224; strides in the 3x3 convolutions, as every
implementation since has them).
"""

from __future__ import annotations

from tvm_hetero.errors import UsageError
from tvm_hetero.zoo.layers import classifier, conv, pool
from tvm_hetero.zoo.work_graph import Builder, Value, WorkGraph

# Depth: blocks in each of the four stages; from 50 on the blocks are bottlenecks.
BLOCKS = {
    18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3),
}  # fmt: skip


def resnet(depth: int = 50, resolution: int = 224) -> WorkGraph:
    """ResNet of that depth: 18, 34, 50, 101, 152, or any 3 n + 2 from 50 on.

    Depths that are not in the paper put the blocks that are more or fewer into the third stage.
    """
    bottleneck = depth >= 50
    net = Builder(f"resnet{depth}")
    x = conv(net, net.input(3, resolution, resolution), 64, 7, 2)
    x = pool(net, x, 3, 2)
    for stage, blocks in enumerate(_blocks(depth)):
        for block in range(blocks):
            stride = 2 if stage > 0 and block == 0 else 1
            make = _bottleneck if bottleneck else _basic
            x = make(net, x, 64 << stage, stride)
    classifier(net, x)
    return net.build()


def _blocks(depth: int) -> tuple[int, ...]:
    if depth in BLOCKS:
        return BLOCKS[depth]
    third = (depth - 32) // 3
    if depth < 50 or (depth - 2) % 3:
        known = ", ".join(map(str, BLOCKS))
        raise UsageError(f"depth {depth}: expected {known}, or 3 n + 2 from 50 on")
    return (3, 4, third, 3)


def _basic(net: Builder, x: Value, channels: int, stride: int) -> Value:
    y = conv(net, x, channels, 3, stride)
    return conv(net, y, channels, 3, add=_shortcut(net, x, channels, stride))


def _bottleneck(net: Builder, x: Value, channels: int, stride: int) -> Value:
    y = conv(net, x, channels, 1)
    y = conv(net, y, channels, 3, stride)
    return conv(net, y, 4 * channels, 1, add=_shortcut(net, x, 4 * channels, stride))


def _shortcut(net: Builder, x: Value, channels: int, stride: int) -> Value:
    """The identity, or a projection where the shape changes."""
    same = stride == 1 and x.shape[0] == channels
    return x if same else conv(net, x, channels, 1, stride)
