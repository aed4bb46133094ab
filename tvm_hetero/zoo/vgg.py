"""VGG by depth: K. Simonyan, A. Zisserman: Very Deep Convolutional Networks for Large-Scale Image
Recognition, ICLR 2015, arXiv 1409.1556, Table 1 (A, B, D, E).
"""

from __future__ import annotations

from tvm_hetero.errors import UsageError
from tvm_hetero.zoo.layers import conv, dense, pool
from tvm_hetero.zoo.work_graph import Builder, WorkGraph

# Depth: convolutions in each of the five stages.
CONVOLUTIONS = {
    11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4),
}  # fmt: skip
_CHANNELS = (64, 128, 256, 512, 512)


def vgg(depth: int = 16, resolution: int = 224) -> WorkGraph:
    """VGG of that depth: 11, 13, 16 or 19."""
    if depth not in CONVOLUTIONS:
        known = ", ".join(map(str, CONVOLUTIONS))
        raise UsageError(f"depth {depth}: expected one of {known}")
    net = Builder(f"vgg{depth}")
    x = net.input(3, resolution, resolution)
    for count, channels in zip(CONVOLUTIONS[depth], _CHANNELS, strict=True):
        for _ in range(count):
            x = conv(net, x, channels, 3, bias=1)
        x = pool(net, x, 2, 2)
    for units in (4096, 4096, 1000):
        x = dense(net, x, units)
    net.output(x)
    return net.build()
