"""Convolutions: every distinct one of the light models, and those of MobileNet v1 and v2."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .case import Case, node
from .networks import operators


@dataclass(frozen=True)
class Convolution:
    """Extents of a convolution of one image; ``pads`` is (top, left, bottom, right)."""

    channels: int
    height: int
    width: int
    out_channels: int
    kernel: tuple[int, int]
    strides: tuple[int, int]
    pads: tuple[int, int, int, int]
    dilations: tuple[int, int] = (1, 1)
    groups: int = 1

    @property
    def family(self) -> str:
        """Which table the convolution belongs to."""
        if self.groups == self.channels > 1:
            return "depthwise"
        if self.groups > 1:
            return "grouped"
        return "pointwise" if self.kernel == (1, 1) else "conv2d"

    @property
    def output(self) -> tuple[int, int]:
        """Rows and columns of the result."""
        sizes = []
        for i, extent in enumerate((self.height, self.width)):
            window = self.dilations[i] * (self.kernel[i] - 1) + 1
            sizes.append((extent + self.pads[i] + self.pads[i + 2] - window) // self.strides[i] + 1)
        return sizes[0], sizes[1]

    @property
    def name(self) -> str:
        """Extents and what is not as usual (stride 1, 'same' padding)."""
        parts = [f"{self.channels}x{self.height}x{self.width}", f"to {self.out_channels}"]
        parts.append("x".join(map(str, self.kernel)))
        if max(self.strides) > 1:
            parts.append("s" + "x".join(map(str, dict.fromkeys(self.strides))))
        if self.pads != tuple((k - 1) // 2 for k in self.kernel) * 2:
            parts.append("p" + ",".join(map(str, dict.fromkeys(self.pads))))
        if self.dilations != (1, 1):
            parts.append(f"d{self.dilations[0]}")
        if 1 < self.groups != self.channels:
            parts.append(f"g{self.groups}")
        return " ".join(parts)

    def case(self, where: str) -> Case:
        """As a model of one node, without its bias."""
        per_group = self.channels // self.groups
        weights = (self.out_channels, per_group, *self.kernel)
        return Case(
            self.name,
            (
                node(
                    "Conv", ("x", "w"), strides=self.strides, pads=self.pads, group=self.groups,
                    dilations=self.dilations, kernel_shape=self.kernel,
                ),
            ),
            {"x": (1, self.channels, self.height, self.width)},
            {"w": weights},
            2.0 * math.prod(weights) * math.prod(self.output),
            "compute",
            where,
        )  # fmt: skip


def cases(family: str) -> list[Case]:
    """The convolutions of one family, each once, with the networks that have it."""
    where: dict[Convolution, list[str]] = {}
    for network, convolution in _all():
        if convolution.family == family and network not in where.setdefault(convolution, []):
            where[convolution].append(network)
    return [convolution.case(", ".join(networks)) for convolution, networks in where.items()]


def tiny(family: str) -> Case:
    """The least convolution of a family: what remains of it is the call."""
    channels = 2 if family in ("depthwise", "grouped") else 1
    groups = channels if family == "depthwise" else 1
    k, p = (1, 0) if family == "pointwise" else (3, 1)
    return Convolution(
        channels, 1, 1, channels, (k, k), (1, 1), (p, p, p, p), groups=groups
    ).case("the call alone")  # fmt: skip


def of_network(name: str) -> Iterator[Convolution]:
    """The convolutions of a light model, in program order."""
    return (convolution for network, convolution in _light() if network == name)


def _all() -> Iterator[tuple[str, Convolution]]:
    yield from _light()
    yield from (("mobilenet-v1", c) for c in _mobilenet_v1())
    yield from (("mobilenet-v2", c) for c in _mobilenet_v2())


def _light() -> Iterator[tuple[str, Convolution]]:
    for op in operators("Conv"):
        _, channels, height, width = op.shapes[0]
        out_channels, _, kh, kw = op.shapes[1]
        sy, sx = op.ints("strides", [1, 1])
        top, left, bottom, right = op.ints("pads", [0, 0, 0, 0])
        dy, dx = op.ints("dilations", [1, 1])
        yield op.model, Convolution(
            channels, height, width, out_channels, (kh, kw), (sy, sx), (top, left, bottom, right),
            (dy, dx), int(op.attributes.get("group", 1)),
        )  # fmt: skip


def _square(channels: int, size: int, out: int, kernel: int, stride: int) -> Convolution:
    p = kernel // 2
    return Convolution(channels, size, size, out, (kernel, kernel), (stride, stride), (p, p, p, p))


def _depthwise(channels: int, size: int, stride: int) -> Convolution:
    return Convolution(
        channels, size, size, channels, (3, 3), (stride, stride), (1, 1, 1, 1), groups=channels
    )


def _mobilenet_v1() -> Iterator[Convolution]:
    """Table 1 of arXiv:1704.04861."""
    size, channels = 112, 32
    yield _square(3, 224, channels, 3, 2)
    steps: Sequence[tuple[int, int]] = [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2)]
    for out, stride in [*steps, *[(512, 1)] * 5, (1024, 2), (1024, 1)]:
        yield _depthwise(channels, size, stride)
        size //= stride
        yield _square(channels, size, out, 1, 1)
        channels = out


def _mobilenet_v2() -> Iterator[Convolution]:
    """Table 2 of arXiv:1801.04381: expansion, output channels, repeats, stride."""
    size, channels = 112, 32
    for expansion, out, repeats, first in [
        (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
        (6, 320, 1, 1),
    ]:  # fmt: skip
        for repeat in range(repeats):
            stride = first if repeat == 0 else 1
            inner = channels * expansion
            if expansion > 1:
                yield _square(channels, size, inner, 1, 1)
            yield _depthwise(inner, size, stride)
            size //= stride
            yield _square(inner, size, out, 1, 1)
            channels = out
    yield _square(channels, size, 1280, 1, 1)
