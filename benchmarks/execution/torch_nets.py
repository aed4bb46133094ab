"""Networks as PyTorch exports them, with random weights: what people bring, and no file to fetch.

Their graphs are those of the published networks (MobileNetV3-Large, YOLOv8n without the decoding
of its boxes, MiniLM-L12), operator for operator as `torch.onnx.export` writes them: squeeze and
excite, hard swish, SiLU, channel splits, attention.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

SEED = 0
# MobileNetV3-Large: channels in, kernel, expanded, channels out, squeeze, hard swish, stride.
_MOBILE = (
    (16, 3, 16, 16, 0, 0, 1), (16, 3, 64, 24, 0, 0, 2), (24, 3, 72, 24, 0, 0, 1),
    (24, 5, 72, 40, 1, 0, 2), (40, 5, 120, 40, 1, 0, 1), (40, 5, 120, 40, 1, 0, 1),
    (40, 3, 240, 80, 0, 1, 2), (80, 3, 200, 80, 0, 1, 1), (80, 3, 184, 80, 0, 1, 1),
    (80, 3, 184, 80, 0, 1, 1), (80, 3, 480, 112, 1, 1, 1), (112, 3, 672, 112, 1, 1, 1),
    (112, 5, 672, 160, 1, 1, 2), (160, 5, 960, 160, 1, 1, 1), (160, 5, 960, 160, 1, 1, 1),
)  # fmt: skip


def export(name: str, path: Path) -> None:
    """Write one of `NETS` as an ONNX file."""
    torch.manual_seed(SEED)
    net, example = NETS[name]()
    with torch.no_grad():
        torch.onnx.export(
            net.eval(), (example,), str(path), opset_version=17, dynamo=False, input_names=["x"]
        )


def _conv(
    inside: int, out: int, size: int, stride: int, act: nn.Module, groups: int = 1
) -> nn.Module:
    plain = nn.Conv2d(inside, out, size, stride, size // 2, groups=groups, bias=False)
    return nn.Sequential(plain, nn.BatchNorm2d(out), act)


class _Squeeze(nn.Module):  # type: ignore[misc]
    def __init__(self, channels: int) -> None:
        super().__init__()
        few = max(8, channels // 4)
        self.first, self.second = nn.Conv2d(channels, few, 1), nn.Conv2d(few, channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mean = functional.adaptive_avg_pool2d(x, 1)
        return x * functional.hardsigmoid(self.second(functional.relu(self.first(mean))))


class _Mobile(nn.Module):  # type: ignore[misc]
    def __init__(
        self, inside: int, size: int, wide: int, out: int, squeeze: int, swish: int, stride: int
    ) -> None:
        super().__init__()
        act = nn.Hardswish() if swish else nn.ReLU()
        steps = [_conv(inside, wide, 1, 1, act)] if wide != inside else []
        steps.append(_conv(wide, wide, size, stride, act, groups=wide))
        steps += [_Squeeze(wide)] if squeeze else []
        steps.append(_conv(wide, out, 1, 1, nn.Identity()))
        self.steps, self.added = nn.Sequential(*steps), stride == 1 and inside == out

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.steps(x) if self.added else self.steps(x)


def _mobilenet() -> tuple[nn.Module, torch.Tensor]:
    swish = nn.Hardswish()
    blocks = [_Mobile(*row) for row in _MOBILE]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(960, 1280), swish]
    net = nn.Sequential(
        _conv(3, 16, 3, 2, swish), *blocks, _conv(160, 960, 1, 1, swish), *head,
        nn.Linear(1280, 1000),
    )  # fmt: skip
    return net, torch.randn(1, 3, 224, 224)


class _C2f(nn.Module):  # type: ignore[misc]
    def __init__(self, inside: int, out: int, count: int, added: bool) -> None:
        super().__init__()
        half, self.added = out // 2, added
        self.first = _conv(inside, out, 1, 1, nn.SiLU())
        self.last = _conv((2 + count) * half, out, 1, 1, nn.SiLU())
        self.blocks = nn.ModuleList(
            nn.Sequential(_conv(half, half, 3, 1, nn.SiLU()), _conv(half, half, 3, 1, nn.SiLU()))
            for _ in range(count)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = list(self.first(x).chunk(2, 1))
        for block in self.blocks:
            parts.append(parts[-1] + block(parts[-1]) if self.added else block(parts[-1]))
        return self.last(torch.cat(parts, 1))


class _Pyramid(nn.Module):  # type: ignore[misc]
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = _conv(channels, channels // 2, 1, 1, nn.SiLU())
        self.last = _conv(2 * channels, channels, 1, 1, nn.SiLU())
        self.pool = nn.MaxPool2d(5, 1, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = [self.first(x)]
        for _ in range(3):
            parts.append(self.pool(parts[-1]))
        return self.last(torch.cat(parts, 1))


class _Yolo(nn.Module):  # type: ignore[misc]
    """YOLOv8n: backbone, neck, and the two heads on each of three scales."""

    def __init__(self, classes: int = 18) -> None:
        super().__init__()

        def conv(inside: int, out: int, stride: int = 2) -> nn.Module:
            return _conv(inside, out, 3, stride, nn.SiLU())

        self.stem = nn.Sequential(conv(3, 16), conv(16, 32), _C2f(32, 32, 1, True))
        self.third = nn.Sequential(conv(32, 64), _C2f(64, 64, 2, True))
        self.fourth = nn.Sequential(conv(64, 128), _C2f(128, 128, 2, True))
        self.fifth = nn.Sequential(conv(128, 256), _C2f(256, 256, 1, True), _Pyramid(256))
        self.up = nn.Upsample(scale_factor=2)
        self.merged = nn.ModuleList(
            _C2f(inside, out, 1, False)
            for inside, out in ((384, 128), (192, 64), (192, 128), (384, 256))
        )
        self.down = nn.ModuleList([conv(64, 64), conv(128, 128)])
        self.heads = nn.ModuleList(
            nn.Sequential(conv(inside, 64, 1), conv(64, 64, 1), nn.Conv2d(64, out, 1))
            for inside in (64, 128, 256)
            for out in (64, classes)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        third = self.third(self.stem(x))
        fourth = self.fourth(third)
        fifth = self.fifth(fourth)
        middle = self.merged[0](torch.cat([self.up(fifth), fourth], 1))
        fine = self.merged[1](torch.cat([self.up(middle), third], 1))
        middle = self.merged[2](torch.cat([self.down[0](fine), middle], 1))
        coarse = self.merged[3](torch.cat([self.down[1](middle), fifth], 1))
        scales = [row for row in (fine, middle, coarse) for _ in range(2)]
        found = [head(row).flatten(2) for head, row in zip(self.heads, scales, strict=True)]
        joined = [
            torch.cat([box, row], 1) for box, row in zip(found[::2], found[1::2], strict=True)
        ]
        return torch.cat(joined, 2).sigmoid()


def _yolo() -> tuple[nn.Module, torch.Tensor]:
    return _Yolo(), torch.randn(1, 3, 320, 320)


class _Encoder(nn.Module):  # type: ignore[misc]
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape

        def split(y: torch.Tensor) -> torch.Tensor:
            return y.view(batch, length, self.heads, -1).transpose(1, 2)

        scores = split(self.query(x)) @ split(self.key(x)).transpose(-1, -2)
        mixed = torch.softmax(scores * 32**-0.5, -1) @ split(self.value(x))
        x = self.first(x + self.out(mixed.transpose(1, 2).reshape(batch, length, width)))
        return self.second(x + self.narrow(functional.gelu(self.wide(x))))


class _Embedded(nn.Module):  # type: ignore[misc]
    def __init__(self, words: int, length: int, width: int) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.places = nn.Parameter(0.02 * torch.randn(length, width))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.words(tokens) + self.places


def _minilm() -> tuple[nn.Module, torch.Tensor]:
    layers = [_Encoder(384, 12) for _ in range(12)]
    return nn.Sequential(_Embedded(1000, 128, 384), *layers), torch.randint(0, 1000, (1, 128))


NETS: dict[str, Callable[[], tuple[nn.Module, torch.Tensor]]] = {
    "mobilenet_v3": _mobilenet,
    "yolov8n": _yolo,
    "minilm": _minilm,
}
