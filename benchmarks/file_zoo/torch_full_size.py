"""Networks at their full size, with random weights: what phones, servers and search engines run.

MobileNetV3 is after A. Howard et al., Searching for MobileNetV3, ICCV 2019,
doi:10.1109/ICCV.2019.00140, table 1 (large); ViT-S after H. Touvron et al., arXiv 2012.12877; BERT
as published.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import transformers as hf
from torch import nn

from benchmarks.file_zoo.torch_models import Made, Only, vision

_TOKENS = 128
# Kernel, wide channels, channels, squeeze-and-excitation, hard swish instead of ReLU, stride.
_BOTTLENECKS = (
    (3, 16, 16, False, False, 1), (3, 64, 24, False, False, 2), (3, 72, 24, False, False, 1),
    (5, 72, 40, True, False, 2), (5, 120, 40, True, False, 1), (5, 120, 40, True, False, 1),
    (3, 240, 80, False, True, 2), (3, 200, 80, False, True, 1), (3, 184, 80, False, True, 1),
    (3, 184, 80, False, True, 1), (3, 480, 112, True, True, 1), (3, 672, 112, True, True, 1),
    (5, 672, 160, True, True, 2), (5, 960, 160, True, True, 1), (5, 960, 160, True, True, 1),
)  # fmt: skip


class SqueezeExcite(nn.Module):
    """Each channel by a gate that is made of all channels' means."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        few = _eights(channels // 4)
        self.gate = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(channels, few, 1), nn.ReLU(),
            nn.Conv2d(few, channels, 1), nn.Hardsigmoid(),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.gate(x)


class Bottleneck(nn.Module):
    """Widen, convolve each channel, gate, narrow; with the identity added where shapes agree."""

    def __init__(
        self,
        inputs: int,
        kernel: int,
        wide: int,
        outputs: int,
        gated: bool,
        hard: bool,
        stride: int,
    ) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        if wide != inputs:
            layers.append(_conv(inputs, wide, 1, act=_activation(hard)))
        layers.append(_conv(wide, wide, kernel, stride, wide, _activation(hard)))
        if gated:
            layers.append(SqueezeExcite(wide))
        layers.append(_conv(wide, outputs, 1))
        self.layers = nn.Sequential(*layers)
        self.adds = stride == 1 and inputs == outputs

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.layers(x) if self.adds else self.layers(x)


def _conv(
    inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1,
    act: nn.Module | None = None,
) -> nn.Module:  # fmt: skip
    layer = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(layer, nn.BatchNorm2d(outputs), *([act] if act else []))


def _activation(hard: bool) -> nn.Module:
    return nn.Hardswish() if hard else nn.ReLU()


def _eights(channels: float) -> int:
    """The nearest multiple of 8 that is not more than a tenth below (the authors' rounding)."""
    nearest = max(8, int(channels + 4) // 8 * 8)
    return nearest + 8 if nearest < 0.9 * channels else nearest


def _mobilenet_v3() -> Made:
    layers: list[nn.Module] = [_conv(3, 16, 3, 2, act=nn.Hardswish())]
    channels = 16
    for kernel, wide, outputs, gated, hard, stride in _BOTTLENECKS:
        layers.append(Bottleneck(channels, kernel, wide, outputs, gated, hard, stride))
        channels = outputs
    layers += [_conv(channels, 960, 1, act=nn.Hardswish()), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    layers += [nn.Linear(960, 1280), nn.Hardswish(), nn.Linear(1280, 1000)]
    return nn.Sequential(*layers), (torch.randn(1, 3, 224, 224),)


def _vit_small() -> Made:
    config = hf.ViTConfig(hidden_size=384, num_attention_heads=6, intermediate_size=1536)
    return vision(hf.ViTModel(config), size=224)


def _bert_base() -> Made:
    config = hf.BertConfig()
    tokens = torch.randint(5, config.vocab_size, (1, _TOKENS))
    return Only(hf.BertModel(config), ("input_ids",), ("last_hidden_state",)), (tokens,)


FULL_SIZE: dict[str, Callable[[], Made]] = {
    "mobilenet-v3": _mobilenet_v3,
    "vit-small": _vit_small,
    "bert-base": _bert_base,
}
