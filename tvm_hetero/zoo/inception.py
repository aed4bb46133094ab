"""Inception, versions 1, 3 and 4: branches of different convolutions that are joined again.

v1: C. Szegedy et al.: Going Deeper with Convolutions, CVPR 2015, doi:10.1109/CVPR.2015.7298594,
Table 1. v3: Rethinking the Inception Architecture, CVPR 2016, doi:10.1109/CVPR.2016.308. v4: C.
Szegedy, S. Ioffe, V. Vanhoucke, A. Alemi, AAAI 2017, arXiv 1602.07261, figures 3 to 9. Classifiers
that serve only training are left out.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm_hetero.zoo.layers import classifier, concat, conv, pool
from tvm_hetero.zoo.work_graph import Builder, Value, WorkGraph

# One step of a branch: channels and window; a window of 0 is a mean over 3x3 in its place.
Step = tuple[int, int | tuple[int, int]]
_ROW, _COLUMN = (1, 7), (7, 1)
# v1, Table 1: 1x1, 3x3 reduce, 3x3, 5x5 reduce, 5x5, pool projection; by stage.
_V1 = (
    ((64, 96, 128, 16, 32, 32), (128, 128, 192, 32, 96, 64)),
    ((192, 96, 208, 16, 48, 64), (160, 112, 224, 24, 64, 64), (128, 128, 256, 24, 64, 64),
     (112, 144, 288, 32, 64, 64), (256, 160, 320, 32, 128, 128)),
    ((256, 160, 320, 32, 128, 128), (384, 192, 384, 48, 128, 128)),
)  # fmt: skip


def inception_v1(resolution: int = 224) -> WorkGraph:
    """GoogLeNet."""
    net = Builder("inception-v1")
    x = conv(net, net.input(3, resolution, resolution), 64, 7, 2, bias=1)
    x = pool(net, x, 3, 2)
    x = conv(net, conv(net, x, 64, 1, bias=1), 192, 3, bias=1)
    for stage in _V1:
        x = pool(net, x, 3, 2)
        for one, three_in, three, five_in, five, after in stage:
            straight = conv(net, x, one, 1, bias=1)
            y = conv(net, conv(net, x, three_in, 1, bias=1), three, 3, bias=1)
            z = conv(net, conv(net, x, five_in, 1, bias=1), five, 5, bias=1)
            pooled = conv(net, pool(net, x, 3, 1), after, 1, bias=1)
            x = concat(net, [straight, y, z, pooled])
    classifier(net, x)
    return net.build()


def inception_v3(resolution: int = 299) -> WorkGraph:
    """Inception v3 (3 modules of 35 x 35, 4 of 17 x 17, 2 of 8 x 8)."""
    net = Builder("inception-v3")
    x = conv(net, net.input(3, resolution, resolution), 32, 3, 2, same=False)
    x = conv(net, conv(net, x, 32, 3, same=False), 64, 3)
    x = pool(net, x, 3, 2, same=False)
    x = conv(net, conv(net, x, 80, 1), 192, 3, same=False)
    x = pool(net, x, 3, 2, same=False)
    for after in (32, 64, 64):
        tower: list[Step] = [(64, 1), (96, 3), (96, 3)]
        x = _module(net, x, [[(64, 1)], [(48, 1), (64, 5)], tower, [(0, 3), (after, 1)]])
    x = _reduce(net, x, [[(384, 3)], [(64, 1), (96, 3), (96, 3)]])
    for c in (128, 160, 160, 192):
        tower = [(c, 1), (c, _COLUMN), (c, _ROW), (c, _COLUMN), (192, _ROW)]
        short: list[Step] = [(c, 1), (c, _ROW), (192, _COLUMN)]
        x = _module(net, x, [[(192, 1)], short, tower, [(0, 3), (192, 1)]])
    x = _reduce(net, x, [[(192, 1), (320, 3)], [(192, 1), (192, _ROW), (192, _COLUMN), (192, 3)]])
    for _ in range(2):
        forked = _fork(net, conv(net, x, 384, 1), 384)
        deeper = _fork(net, _branch(net, x, [(448, 1), (384, 3)]), 384)
        ends = [_branch(net, x, [(320, 1)]), *forked, *deeper, _branch(net, x, [(0, 3), (192, 1)])]
        x = concat(net, ends)
    classifier(net, x)
    return net.build()


def inception_v4(a: int = 4, b: int = 7, c: int = 3, resolution: int = 299) -> WorkGraph:
    """Inception v4 with `a`, `b` and `c` modules of its three kinds (4, 7 and 3 in the paper)."""
    net = Builder("inception-v4")
    x = _stem_v4(net, net.input(3, resolution, resolution))
    for _ in range(a):
        tower: list[Step] = [(64, 1), (96, 3), (96, 3)]
        x = _module(net, x, [[(0, 3), (96, 1)], [(96, 1)], [(64, 1), (96, 3)], tower])
    x = _reduce(net, x, [[(384, 3)], [(192, 1), (224, 3), (256, 3)]])
    for _ in range(b):
        short: list[Step] = [(192, 1), (224, _ROW), (256, _COLUMN)]
        tower = [(192, 1), (192, _ROW), (224, _COLUMN), (224, _ROW), (256, _COLUMN)]
        x = _module(net, x, [[(0, 3), (128, 1)], [(384, 1)], short, tower])
    x = _reduce(net, x, [[(192, 1), (192, 3)], [(256, 1), (256, _ROW), (320, _COLUMN), (320, 3)]])
    for _ in range(c):
        forked = _fork(net, conv(net, x, 384, 1), 256)
        tower = [(384, 1), (448, (1, 3)), (512, (3, 1))]
        deeper = _fork(net, _branch(net, x, tower), 256)
        ends = [_branch(net, x, [(0, 3), (256, 1)]), conv(net, x, 256, 1), *forked, *deeper]
        x = concat(net, ends)
    classifier(net, x)
    return net.build()


def _stem_v4(net: Builder, x: Value) -> Value:
    x = conv(net, x, 32, 3, 2, same=False)
    x = conv(net, conv(net, x, 32, 3, same=False), 64, 3)
    pooled = pool(net, x, 3, 2, same=False)
    x = concat(net, [pooled, conv(net, x, 96, 3, 2, same=False)])
    short = conv(net, conv(net, x, 64, 1), 96, 3, same=False)
    tower = _branch(net, x, [(64, 1), (64, _COLUMN), (64, _ROW)])
    x = concat(net, [short, conv(net, tower, 96, 3, same=False)])
    pooled = pool(net, x, 3, 2, same=False)
    return concat(net, [conv(net, x, 192, 3, 2, same=False), pooled])


def _branch(net: Builder, x: Value, steps: Sequence[Step]) -> Value:
    for channels, window in steps:
        x = conv(net, x, channels, window) if channels else pool(net, x, 3, 1, op="avgpool3x3")
    return x


def _module(net: Builder, x: Value, branches: Sequence[Sequence[Step]]) -> Value:
    """All branches on `x`, joined; height and width stay."""
    return concat(net, [_branch(net, x, steps) for steps in branches])


def _reduce(net: Builder, x: Value, branches: Sequence[Sequence[Step]]) -> Value:
    """As `_module`, but the last step of each branch halves, and a pooling branch is added."""
    ends = []
    for *steps, (channels, window) in branches:
        y = _branch(net, x, steps)
        ends.append(conv(net, y, channels, window, 2, same=False))
    return concat(net, [*ends, pool(net, x, 3, 2, same=False)])


def _fork(net: Builder, x: Value, channels: int) -> list[Value]:
    """A row and a column convolution side by side."""
    return [conv(net, x, channels, (1, 3)), conv(net, x, channels, (3, 1))]
