"""Make the zoo's lists of layer shapes anew, from the definitions of the networks.

    python -m benchmarks.layer_lists [--output FOLDER]

VGG-16, ResNet-50, ResNet-152 and YOLOv3 are what Pipe-search, Shisha and ODIN were evaluated on.
Their layers follow from the tables of the networks' own papers, written out below as loops.
SynthNet is a stand-in of ours: the papers' synthetic network of 18 convolutions is not public.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tvm_hetero.util.documents import write_atomic
from tvm_hetero.zoo.files import FOLDER
from tvm_hetero.zoo.layer_lists import SUFFIX, LayerKind, LayerList, LayerShape


class LayerWriter:
    """Writes layers down; follows one tensor of (height, width, channels) through the network."""

    def __init__(self, size: int, channels: int = 3) -> None:
        self.height = self.width = size
        self.channels = channels
        self.layers: list[LayerShape] = []

    def conv(self, name: str, channels: int, kernel: int, stride: int = 1) -> None:
        """A convolution with padding that keeps the size at stride 1."""
        reads = self.channels
        self.height, self.width = -(-self.height // stride), -(-self.width // stride)
        self.channels = channels
        self._add(name, "conv", self.height, self.width, reads, kernel, kernel, channels)

    def pool(self, name: str, stride: int) -> None:
        """Pooling to a `stride`-th of height and width."""
        before = self.height, self.width, self.channels
        self.height, self.width = -(-self.height // stride), -(-self.width // stride)
        self._add(name, "pool", *before, self.height, self.width)

    def dense(self, name: str, outputs: int) -> None:
        """A fully connected layer."""
        self._add(name, "fc", self.height, self.width, self.channels, outputs)
        self.height = self.width = 1
        self.channels = outputs

    def network(self, name: str) -> LayerList:
        """What was written down."""
        return LayerList(name, tuple(self.layers))

    def _add(self, name: str, kind: LayerKind, *numbers: int) -> None:
        self.layers.append(LayerShape(name, kind, numbers))


def vgg16() -> LayerList:
    """VGG-16: K. Simonyan, A. Zisserman, arXiv 1409.1556, table 1, column D."""
    net = LayerWriter(224)
    for stage, (count, channels) in enumerate(
        zip((2, 2, 3, 3, 3), (64, 128, 256, 512, 512), strict=True), 1
    ):
        for i in range(1, count + 1):
            net.conv(f"conv{stage}_{i}", channels, 3)
        net.pool(f"pool{stage}", 2)
    for name, outputs in (("fc6", 4096), ("fc7", 4096), ("fc8", 1000)):
        net.dense(name, outputs)
    return net.network("vgg16")


def resnet(depth: int) -> LayerList:
    """ResNet-50 or -152: K. He et al., arXiv 1512.03385, table 1; strides in the 3x3 convolutions,
    as every implementation since has them. A projection stands before the block's last convolution.
    """
    net = LayerWriter(224)
    net.conv("conv1", 64, 7, 2)
    net.pool("pool1", 2)
    for stage, blocks in enumerate({50: (3, 4, 6, 3), 152: (3, 8, 36, 3)}[depth]):
        width = 64 << stage
        for block in range(blocks):
            name = f"conv{stage + 2}_{block + 1}"
            stride = 2 if stage > 0 and block == 0 else 1
            before = net.height, net.width, net.channels
            net.conv(f"{name}_1x1a", width, 1)
            net.conv(f"{name}_3x3", width, 3, stride)
            if block == 0:
                net.height, net.width, net.channels = before
                net.conv(f"{name}_shortcut", 4 * width, 1, stride)
                net.channels = width  # the last one reads what the 3x3 convolution has made
            net.conv(f"{name}_1x1b", 4 * width, 1)
    net.pool("pool5", net.height)
    net.dense("fc", 1000)
    return net.network(f"resnet{depth}")


def yolov3() -> LayerList:
    """YOLOv3 for 416 x 416: J. Redmon, A. Farhadi, arXiv 1804.02767, table 1 (Darknet-53) and
    section 2.3; the head as in the authors' yolov3.cfg, 80 classes.
    """
    net = LayerWriter(416)
    net.conv("conv1", 32, 3)
    for stage, blocks in enumerate((1, 2, 8, 8, 4), 2):
        width = 32 << (stage - 1)
        net.conv(f"conv{stage}_down", width, 3, 2)
        for block in range(1, blocks + 1):
            net.conv(f"conv{stage}_{block}_1x1", width // 2, 1)
            net.conv(f"conv{stage}_{block}_3x3", width, 3)
    # Three scales: each but the first reads the one before, reduced and twice as large, beside what
    # the backbone made of that size.
    for scale, (width, beside) in enumerate(((512, 0), (256, 512), (128, 256)), 1):
        if scale > 1:
            net.channels = 2 * width  # what the fifth convolution of the scale before has made
            net.conv(f"head{scale}_reduce", width, 1)
            net.height, net.width = 2 * net.height, 2 * net.width
            net.channels += beside
        for i in range(1, 4):
            net.conv(f"head{scale}_{i}_1x1", width, 1)
            net.conv(f"head{scale}_{i}_3x3", 2 * width, 3)
        net.conv(f"head{scale}_detect", 3 * (4 + 1 + 80), 1)
    return net.network("yolov3")


def synthnet() -> LayerList:
    """A stand-in of ours for the papers' synthetic network, of which only the 18 convolutions are
    known: 56 x 56 pixels, kernels of 1, 3 and 5, work that goes up and down by a factor of 200.
    """
    net = LayerWriter(56, 32)
    widths = (32, 64, 64, 96, 128, 128, 192, 128, 256, 192, 256, 256, 320, 384, 256, 512, 384, 512)
    for i, channels in enumerate(widths):
        net.conv(f"conv{i + 1}", channels, (3, 1, 5)[i % 3], 2 if i in (6, 12) else 1)
    return net.network("synthnet")


NETWORKS: Mapping[str, Callable[[], LayerList]] = {
    "vgg16": vgg16,
    "resnet50": lambda: resnet(50),
    "resnet152": lambda: resnet(152),
    "yolov3": yolov3,
    "synthnet": synthnet,
}


def main(argv: Sequence[str] | None = None) -> list[LayerList]:
    """Write every list."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--output", type=Path, default=FOLDER)
    args = parser.parse_args(argv)
    made = [make() for make in NETWORKS.values()]
    for each in made:
        write_atomic(args.output / f"{each.name}{SUFFIX}", each.text())
        print(f"{each.name}: {len(each.layers)} layers, {each.weight / 1e9:.2f} G multiply-adds")
    return made


if __name__ == "__main__":
    main()
