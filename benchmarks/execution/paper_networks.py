"""The networks on which papers on pipelines were evaluated, as ONNX with seeded random weights.

Pipe-search, Shisha and ODIN use VGG-16, ResNet-50, ResNet-152, YOLOv3 and a synthetic network. Here
they are whole: with shortcuts, activations and what else `tvm_hetero.zoo.layer_lists` leaves out.
Normalisation is folded into the weights, as inference does it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import onnx

from benchmarks.execution.cases import SEED, NetBuilder
from tvm_hetero.zoo.files import stored_layers

_CLASSES = 1000


@dataclass
class _Trunk:
    """Follows one tensor, and how many channels it has, through a network in the making."""

    net: NetBuilder
    value: str = "input"
    channels: int = 3

    def conv(self, makes: int, size: int, stride: int = 1, activation: str = "Relu") -> None:
        """A convolution; an empty `activation` is none."""
        self.value = self.net.conv(self.value, self.channels, makes, size, stride)
        self.channels = makes
        if activation:
            self.value = self.net.add(activation, self.value)

    def pool(self, size: int, stride: int) -> None:
        """The largest of windows."""
        pad = (size - 1) // 2
        self.value = self.net.add(
            "MaxPool", self.value, kernel_shape=[size] * 2, strides=[stride] * 2, pads=[pad] * 4
        )

    def dense(self, reads: int, makes: int, activation: str = "Relu") -> None:
        """A fully connected layer on a flat tensor."""
        weights = [self.net.weight((reads, makes), 2 / reads), self.net.weight((makes,), 0.01)]
        self.value = self.net.add("Gemm", self.value, *weights)
        if activation:
            self.value = self.net.add(activation, self.value)


def vgg16() -> onnx.ModelProto:
    """VGG-16 (arXiv 1409.1556)."""
    at = _Trunk(NetBuilder(SEED))
    for count, channels in zip((2, 2, 3, 3, 3), (64, 128, 256, 512, 512), strict=True):
        for _ in range(count):
            at.conv(channels, 3)
        at.pool(2, 2)
    at.value = at.net.add("Flatten", at.value)
    at.dense(512 * 7 * 7, 4096)
    at.dense(4096, 4096)
    at.dense(4096, _CLASSES, activation="")
    return at.net.model({at.value: [1, _CLASSES]}, 224, name="vgg16")


def resnet(depth: int) -> onnx.ModelProto:
    """ResNet-50 or -152 (arXiv 1512.03385)."""
    at = _Trunk(NetBuilder(SEED))
    at.conv(64, 7, 2)
    at.pool(3, 2)
    for stage, blocks in enumerate({50: (3, 4, 6, 3), 152: (3, 8, 36, 3)}[depth]):
        for block in range(blocks):
            _bottleneck(at, 64 << stage, stride=2 if stage > 0 and block == 0 else 1)
    at.value = at.net.add("Flatten", at.net.add("GlobalAveragePool", at.value))
    at.dense(2048, _CLASSES, activation="")
    return at.net.model({at.value: [1, _CLASSES]}, 224, name=f"resnet{depth}")


def _bottleneck(at: _Trunk, width: int, stride: int) -> None:
    """Three convolutions beside the identity, or beside a projection where the shape changes."""
    before = _Trunk(at.net, at.value, at.channels)
    at.conv(width, 1)
    at.conv(width, 3, stride)
    at.conv(4 * width, 1, activation="")
    if before.channels != at.channels:
        before.conv(4 * width, 1, stride, activation="")
    # Sums of many blocks grow; a normalisation would keep them small.
    half = at.net.constant(np.array([0.5], np.float32))
    total = at.net.add("Mul", at.net.add("Add", at.value, before.value), half)
    at.value = at.net.add("Relu", total)


def yolov3() -> onnx.ModelProto:
    """YOLOv3 for 416 x 416 (arXiv 1804.02767; the head as in the authors' yolov3.cfg)."""
    at = _Trunk(NetBuilder(SEED))
    at.conv(32, 3, activation="LeakyRelu")
    kept: list[_Trunk] = []
    for stage, blocks in enumerate((1, 2, 8, 8, 4)):
        width = 64 << stage
        at.conv(width, 3, 2, activation="LeakyRelu")
        for _ in range(blocks):
            before = at.value
            at.conv(width // 2, 1, activation="LeakyRelu")
            at.conv(width, 3, activation="LeakyRelu")
            at.value = at.net.add("Add", at.value, before)
        kept.append(_Trunk(at.net, at.value, at.channels))
    outputs = {}
    for scale, width in enumerate((512, 256, 128)):
        if scale:
            at.conv(width, 1, activation="LeakyRelu")
            _twice_as_large(at)
            beside = kept[4 - scale]
            at.value = at.net.add("Concat", at.value, beside.value, axis=1)
            at.channels += beside.channels
        for i in range(5):
            at.conv(width * (1 + i % 2), 1 + 2 * (i % 2), activation="LeakyRelu")
        head = _Trunk(at.net, at.value, at.channels)
        head.conv(2 * width, 3, activation="LeakyRelu")
        head.conv(3 * (4 + 1 + 80), 1, activation="")
        outputs[head.value] = [1, head.channels, 13 << scale, 13 << scale]
    return at.net.model(outputs, 416, name="yolov3")


def _twice_as_large(at: _Trunk) -> None:
    scales = at.net.constant(np.array([1, 1, 2, 2], np.float32))
    at.value = at.net.add(
        "Resize", at.value, "", scales, mode="nearest",
        coordinate_transformation_mode="asymmetric", nearest_mode="floor",
    )  # fmt: skip


def synthnet() -> onnx.ModelProto:
    """The stand-in of ours for the papers' synthetic network, from its list of layers."""
    first, *_ = layers = stored_layers("synthnet").layers
    at = _Trunk(NetBuilder(SEED), channels=first.numbers[2])
    size = first.numbers[0]
    for layer in layers:
        height, _, _, kernel, _, channels = layer.numbers
        at.conv(channels, kernel, size // height)
        size = height
    outputs = {at.value: [1, at.channels, size, size]}
    return at.net.model(outputs, first.numbers[0], first.numbers[2], name="synthnet")


PAPER_NETWORKS: Mapping[str, Callable[[], onnx.ModelProto]] = {
    "vgg16": vgg16,
    "resnet152": lambda: resnet(152),
    "yolov3": yolov3,
    "synthnet": synthnet,
}


def parameters(model: onnx.ModelProto) -> int:
    """Numbers in a model's weights."""
    return sum(math.prod(row.dims) for row in model.graph.initializer)
