"""MobileNet, versions 1 and 2, by width: A. Howard et al., arXiv 1704.04861, Table 1; M. Sandler et
al.: MobileNetV2, CVPR 2018, doi:10.1109/CVPR.2018.00474, Table 2.
"""

from __future__ import annotations

from tvm_hetero.zoo.layers import classifier, conv
from tvm_hetero.zoo.work_graph import Builder, Value, WorkGraph

# Version 1: channels and stride of every separable convolution.
_SEPARABLE = (
    (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2),
    (512, 1), (512, 1), (512, 1), (512, 1), (512, 1), (1024, 2), (1024, 1),
)  # fmt: skip
# Version 2: expansion, channels, repetitions, stride of the first.
_INVERTED = (
    (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2),
    (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
)  # fmt: skip


def mobilenet_v1(width: float = 1.0, resolution: int = 224) -> WorkGraph:
    """MobileNet; `width` multiplies all channels (0.25, 0.5, 0.75 and 1 in the paper)."""
    net = Builder("mobilenet-v1")
    x = conv(net, net.input(3, resolution, resolution), max(1, round(32 * width)), 3, 2)
    for channels, stride in _SEPARABLE:
        x = conv(net, x, x.shape[0], 3, stride, groups=x.shape[0])
        x = conv(net, x, max(1, round(channels * width)), 1)
    classifier(net, x)
    return net.build()


def mobilenet_v2(width: float = 1.0, resolution: int = 224) -> WorkGraph:
    """MobileNetV2; `width` multiplies the channels, rounded to multiples of 8."""
    net = Builder("mobilenet-v2")
    x = conv(net, net.input(3, resolution, resolution), _eights(32 * width), 3, 2)
    for expansion, channels, repetitions, first in _INVERTED:
        for i in range(repetitions):
            x = _inverted(net, x, expansion, _eights(channels * width), first if i == 0 else 1)
    x = conv(net, x, _eights(1280 * max(1.0, width)), 1)
    classifier(net, x)
    return net.build()


def _inverted(net: Builder, x: Value, expansion: int, channels: int, stride: int) -> Value:
    """Widen, convolve each channel, narrow; with the identity added where shapes agree."""
    c = x.shape[0]
    y = x if expansion == 1 else conv(net, x, expansion * c, 1)
    y = conv(net, y, y.shape[0], 3, stride, groups=y.shape[0])
    return conv(net, y, channels, 1, add=x if stride == 1 and c == channels else None)


def _eights(channels: float) -> int:
    """The nearest multiple of 8 that is not more than a tenth below (the authors' rounding)."""
    nearest = max(8, int(channels + 4) // 8 * 8)
    return nearest + 8 if nearest < 0.9 * channels else nearest
