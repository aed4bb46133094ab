"""U-Net by depth: O. Ronneberger, P. Fischer, T. Brox: U-Net: Convolutional Networks for Biomedical
Image Segmentation, MICCAI 2015, arXiv 1505.04597, figure 1 (with padding, as usual today).

What the way down makes is read again on the way up, so few tasks lie on every path.
"""

from __future__ import annotations

from tvm_hetero.errors import UsageError
from tvm_hetero.zoo.layers import conv, pool
from tvm_hetero.zoo.work_graph import Builder, Value, WorkGraph

_MOST_LEVELS = 30
"""An image that can be halved so often has more pixels than any memory has bytes."""


def unet(levels: int = 4, channels: int = 64, resolution: int = 512, classes: int = 2) -> WorkGraph:
    """U-Net that halves the image `levels` times, from `channels` channels on."""
    if levels > _MOST_LEVELS:
        raise UsageError(f"levels {levels}: expected {_MOST_LEVELS} at most")
    if resolution % (1 << levels):
        raise UsageError(f"resolution {resolution}: expected a multiple of {1 << levels}")
    net = Builder(f"unet-{levels}x{channels}")
    x = net.input(1, resolution, resolution)
    skipped = []
    for level in range(levels):
        x = _twice(net, [x], channels << level)
        skipped.append(x)
        x = pool(net, x, 2, 2)
    x = _twice(net, [x], channels << levels)
    for level in reversed(range(levels)):
        x = conv(net, x, channels << level, 2, bias=1, out_ratio=2)
        x = _twice(net, [skipped[level], x], channels << level)
    net.output(conv(net, x, classes, 1, bias=1))
    return net.build()


def _twice(net: Builder, reads: list[Value], channels: int) -> Value:
    """Two 3x3 convolutions, the first on the concatenation of what it reads."""
    c = sum(value.shape[0] for value in reads)
    _, h, w = reads[0].shape
    weights = 9 * c * channels
    x = net.add(
        "conv3x3",
        "conv",
        reads,
        (channels, h, w),
        flops=2.0 * weights * h * w,
        weights=weights + channels,
    )
    return conv(net, x, channels, 3, bias=1)
