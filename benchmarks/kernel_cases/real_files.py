"""Kernels that real ONNX files have and the light models have not.

Activations as exporters write them, numbers of 16 bits, dilated convolutions of sound, transposed
ones, those of one output channel, and of volumes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from .case import Case, Nodes, Shape, moved, node


def cases() -> list[Case]:
    """Each once, with the kind of network that has it."""
    plain, half = _clipped("Conv, Clip"), "float16"
    wave = [_dilated(128 * 4**i) for i in range(4)]
    return [
        plain,
        _clipped("Conv, HardSwish"),
        _convolution((1, 64, 28, 28), (64, 64, 3, 3), "half precision", half),
        _convolution((1, 256, 14, 14), (256, 256, 1, 1), "half precision", half),
        _convolution((1, 3, 112, 112), (32, 3, 3, 3), "half precision", half),
        *wave,
        _depthwise(96, 80, 7, "PP-OCRv6"),
        _depthwise(192, 28, 7, "ConvNeXt"),
        _depthwise(96, 56, 3, "MobileNet"),
        _depthwise(64, 64, 13, "large windows"),
        _dilated_image((1, 32, 100, 64), (64, 32, 3, 3), (2, 1), "speech quality"),
        _dilated_image((1, 256, 28, 28), (256, 256, 3, 3), (2, 2), "segmentation"),
        _transposed((1, 64, 28, 28), (64, 32, 4, 4), 2, "decoders of images"),
        _transposed((1, 256, 16, 16), (256, 128, 2, 2), 2, "U-Net"),
        _transposed((1, 256, 100), (256, 128, 16), 8, "vocoders"),
        _convolution((1, 64, 64, 64), (1, 64, 3, 3), "depth, masks"),
        _convolution((1, 32, 128, 128), (1, 32, 1, 1), "depth, masks"),
        _convolution((1, 32, 4000), (1, 32, 7), "vocoders"),
        _convolution((1, 64, 64, 64), (3, 64, 3, 3), "super resolution"),
        _convolution((1, 32, 64, 64), (3, 32, 9, 9), "style transfer"),
        _convolution((1, 256, 512, 1), (512, 256, 5, 1), "sequences as images of one column"),
        _convolution((1, 64, 100, 3), (64, 64, 3, 1), "spectrograms"),
        _convolution((1, 128, 17, 17), (128, 128, 7, 1), "Inception v3"),
        _convolution((1, 64, 56, 56), (64, 64, 3, 1), "windows taken apart"),
        _maximum((512, 508), "the end of a convolution of sequences"),
        _convolution((1, 16, 16, 28, 28), (32, 16, 3, 3, 3), "video"),
        _convolution((1, 64, 8, 56, 56), (64, 64, 3, 1, 1), "video"),
        _convolution((1, 64, 32, 32, 32), (32, 64, 1, 1, 1), "segmented volumes"),
    ]


def tiny() -> Case:
    """The least convolution."""
    return _convolution((1, 1, 1, 1), (1, 1, 1, 1), "the call alone")


def _clipped(kind: str) -> Case:
    """A convolution of 1x1 with an activation that has bounds as operands (opset 11 and later)."""
    nodes: Nodes = (node("Conv", ("x", "w"), "a"),)
    if kind == "Conv, Clip":
        nodes += (node("Clip", ("a", "zero", "six")),)
    else:  # as PaddlePaddle writes it
        nodes += (
            node("Add", ("a", "three"), "b"),
            node("Clip", ("b", "zero", "six"), "c"),
            node("Mul", ("a", "c"), "d"),
            node("Div", ("d", "six")),
        )
    shape, weights = (1, 256, 12, 80), (256, 256, 1, 1)
    scalars = {"zero": 0.0, "six": 6.0, **({} if kind == "Conv, Clip" else {"three": 3.0})}
    work = 2.0 * math.prod(weights) * math.prod(shape[2:])
    return Case(
        f"{kind} 256x12x80 to 256 1x1", nodes, {"x": shape}, {"w": weights, **scalars}, work,
        "compute", "MobileNet, PP-OCR",
    )  # fmt: skip


def _convolution(x: Shape, w: Shape, where: str, dtype: str = "float32") -> Case:
    """A convolution with 'same' padding."""
    pads = [(k - 1) // 2 for k in w[2:]] * 2
    work = 2.0 * math.prod(w) * math.prod(x[2:])
    name = f"{_text(x[1:])} to {w[0]} {_text(w[2:])}{'' if dtype == 'float32' else ' ' + dtype}"
    nodes = (node("Conv", ("x", "w"), pads=pads),)
    return Case(name, nodes, {"x": x}, {"w": w}, work, "compute", where, dtype)


def _dilated(dilation: int) -> Case:
    """A step of a network of sound: three values that stand far apart."""
    length, channels = 16384, 128
    work = 2.0 * 3 * channels**2 * length
    nodes = (node("Conv", ("x", "w"), pads=[dilation, dilation], dilations=[dilation]),)
    return Case(
        f"{channels}x{length} to {channels} 3 d{dilation}", nodes, {"x": (1, channels, length)},
        {"w": (channels, channels, 3)}, work, "compute", "WaveNet",
    )  # fmt: skip


def _depthwise(channels: int, size: int, window: int, where: str) -> Case:
    """Each channel by a window of its own."""
    w = (channels, 1, window, window)
    nodes = (node("Conv", ("x", "w"), pads=[window // 2] * 4, group=channels),)
    name = f"depthwise {channels}x{size}x{size} {window}x{window}"
    work = 2.0 * math.prod(w) * size * size
    return Case(name, nodes, {"x": (1, channels, size, size)}, {"w": w}, work, "compute", where)


def _maximum(shape: Shape, where: str) -> Case:
    """The largest value of each row."""
    nodes = (node("ReduceMax", ("x",), axes=[len(shape) - 1]),)
    return Case(f"maximum of {_text(shape)}", nodes, {"x": shape}, {}, moved(shape), "read", where)


def _dilated_image(x: Shape, w: Shape, dilation: tuple[int, int], where: str) -> Case:
    """Windows of an image that stand apart."""
    work = 2.0 * math.prod(w) * math.prod(x[2:])
    nodes = (node("Conv", ("x", "w"), pads=[*dilation] * 2, dilations=dilation),)
    name = f"{_text(x[1:])} to {w[0]} {_text(w[2:])} d{_text(dilation)}"
    return Case(name, nodes, {"x": x}, {"w": w}, work, "compute", where)


def _transposed(x: Shape, w: Shape, stride: int, where: str) -> Case:
    """A transposed convolution whose result has so many times the rows and columns."""
    rank = len(x) - 2
    pad = (w[2] - stride) // 2
    nodes = (node("ConvTranspose", ("x", "w"), strides=[stride] * rank, pads=[pad] * (2 * rank)),)
    name = f"transposed {_text(x[1:])} to {w[1]} {_text(w[2:])} s{stride}"
    work = 2.0 * math.prod(w) * math.prod(x[2:])
    return Case(name, nodes, {"x": x}, {"w": w}, work, "compute", where)


def _text(extents: Sequence[int]) -> str:
    return "x".join(map(str, extents))
