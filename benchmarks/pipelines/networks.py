"""The papers' networks as chains of layers, with their work and memory traffic by shape.

VGG16 and the ResNets are the zoo's; YOLOv3 and SynthNet are written down here: YOLOv3 by its
configuration (J. Redmon, A. Farhadi, arXiv:1804.02767) at 416 x 416, its three heads at the end of
the chain; SynthNet as it is remembered, 18 convolutions (docs/online.md).
"""

from __future__ import annotations

from typing import NamedTuple

from tvm_hetero import zoo
from tvm_hetero.online.chain import chain_of

NETWORKS = ("vgg16", "resnet50", "resnet152", "yolov3", "synthnet")
_FLOAT = 4


class Layer(NamedTuple):
    """A layer: multiply-adds (the papers' weight), and bytes that it reads and writes."""

    name: str
    work: float
    bytes: float


def layers_of(name: str) -> list[Layer]:
    """The layers of a network, in the order of the chain."""
    if name == "yolov3":
        return _yolov3()
    if name == "synthnet":
        return [_convolution(f"conv{i}", 56, 128, 128, 3) for i in range(18)]
    problem = zoo.problem(name)
    tasks = problem.graph.task
    found = []
    for block in chain_of(problem).members:
        work = sum(tasks(task).flops / 2 for task in block)
        found.append(Layer(block[0], max(1.0, work), sum(tasks(task).bytes for task in block)))
    return found


def _convolution(
    name: str, size: int, inputs: int, outputs: int, kernel: int, stride: int = 1
) -> Layer:
    """A square convolution whose output is `size` x `size`."""
    weights = inputs * outputs * kernel * kernel
    moved = weights + size * size * (inputs * stride * stride + outputs)
    return Layer(name, float(size * size * weights), float(_FLOAT * moved))


def _yolov3() -> list[Layer]:
    """Darknet-53, then the heads at 13, 26 and 52 points."""
    found = [_convolution("conv0", 416, 3, 32, 3)]
    size, channels = 416, 32
    for stage, repeats in enumerate((1, 2, 8, 8, 4)):
        size, channels = size // 2, channels * 2
        found.append(_convolution(f"down{stage}", size, channels // 2, channels, 3, stride=2))
        for r in range(repeats):
            half = channels // 2
            found.append(_convolution(f"dark{stage}.{r}a", size, channels, half, 1))
            found.append(_convolution(f"dark{stage}.{r}b", size, half, channels, 3))
    for head, (size, inputs, width) in enumerate(((13, 1024, 512), (26, 768, 256), (52, 384, 128))):
        for i in range(3):
            first = inputs if i == 0 else 2 * width
            found.append(_convolution(f"head{head}.{i}a", size, first, width, 1))
            found.append(_convolution(f"head{head}.{i}b", size, width, 2 * width, 3))
        found.append(_convolution(f"head{head}.out", size, 2 * width, 255, 1))
    return found
