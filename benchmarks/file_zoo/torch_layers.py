"""Small networks of PyTorch's own layers, each of a kind that exporters write in its own form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

Made = tuple[nn.Module, tuple[Any, ...]]


class Recurrent(nn.Module):
    """A recurrent layer over a sequence, and a classifier of its last step."""

    def __init__(self, layer: nn.RNNBase) -> None:
        super().__init__()
        self.layer = layer
        width = layer.hidden_size * (2 if layer.bidirectional else 1)
        self.head = nn.Linear(width, 10)

    def forward(self, x: torch.Tensor) -> Any:
        found, _ = self.layer(x)
        return self.head(found), found[:, -1]


class UNet(nn.Module):
    """Two levels down and up again, by strided and transposed convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = _conv(3, 32, 1), _conv(32, 64, 2)
        self.c = _conv(64, 128, 2)
        self.up1 = nn.ConvTranspose2d(128, 64, 2, 2)
        self.up2 = nn.ConvTranspose2d(128, 32, 3, 2, padding=1, output_padding=1)
        self.head = nn.Conv2d(64, 1, 1)

    def forward(self, x: torch.Tensor) -> Any:
        a = self.a(x)
        b = self.b(a)
        up = torch.cat([self.up1(self.c(b)), b], 1)
        return torch.sigmoid(self.head(torch.cat([self.up2(up), a], 1)))


class Moe(nn.Module):
    """A router that weighs the best two of eight experts."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(64, 8)
        self.experts = nn.Parameter(torch.randn(8, 64, 64) / 8)

    def forward(self, x: torch.Tensor) -> Any:
        weights, chosen = torch.topk(self.router(x).softmax(-1), 2)
        gate = torch.zeros(x.shape[0], 8).scatter(1, chosen, weights)
        every = torch.einsum("td,edf->tef", x, self.experts)
        return (every * gate[..., None]).sum(1), torch.cumsum(gate, 0)


class DetectionHead(nn.Module):
    """Boxes of the best scores, as detectors without suppression have them."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(32, 4 + 10, 1)

    def forward(self, x: torch.Tensor) -> Any:
        found = self.conv(x).flatten(2).transpose(1, 2)
        boxes, scores = found[..., :4], found[..., 4:].sigmoid()
        best, index = scores.amax(-1).topk(50)
        chosen = torch.gather(boxes, 1, index[..., None].expand(-1, -1, 4))
        return chosen, best, torch.gather(scores.argmax(-1), 1, index)


class GridSample(nn.Module):
    """Bends an image by a map of places, and enlarges it."""

    def forward(self, x: torch.Tensor, grid: torch.Tensor) -> Any:
        bent = functional.grid_sample(x, grid, align_corners=False)
        return functional.interpolate(bent, scale_factor=2.0, mode="bicubic")


class Spectrum(nn.Module):
    """Logarithm of a mel-like spectrum by a short-time Fourier transform."""

    def __init__(self) -> None:
        super().__init__()
        self.window = nn.Parameter(torch.hann_window(256), requires_grad=False)
        self.mel = nn.Linear(129, 40)

    def forward(self, x: torch.Tensor) -> Any:
        found = torch.stft(x, 256, 128, window=self.window, return_complex=True)
        power = torch.view_as_real(found).square().sum(-1)
        return torch.log(self.mel(power.transpose(1, 2)).abs() + 1e-3)


class Einsum(nn.Module):
    """Attention written as sums over named axes."""

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / 8
        mask = torch.ones(64, 64, dtype=torch.bool).tril()
        scores = scores.masked_fill(~mask, float("-inf")).softmax(-1)
        return torch.einsum("bhqk,bkhd->bqhd", scores, v)


class Gnn(nn.Module):
    """Two rounds of messages along edges, summed and at most."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(16, 32), nn.Linear(32, 8)

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> Any:
        source, target = edges[0], edges[1]
        h = self.one(x)
        h = torch.zeros_like(h).index_add(0, target, h[source]).relu()
        h = self.two(h)
        index = target[:, None].expand(-1, 8)
        return torch.zeros_like(h).scatter_reduce(0, index, h[source], "amax")


class Halve(nn.Module):
    """Halves a tensor a fixed number of times, in a loop that the exporter keeps."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(3):
            x = x * 0.5 + x.flip(0)
        return x


class OddSlices(nn.Module):
    """What exporters write with the largest integers, negative steps, and whole numbers."""

    def forward(self, x: torch.Tensor, n: torch.Tensor) -> Any:
        left = torch.cat([x[:, 1:], x[:, -3:], x[:, ::2].flip(1)], 1)
        floor = torch.div(n, 3, rounding_mode="floor") + n % 4
        picked = torch.where(n > 2, n, torch.full_like(n, 2**40))
        return left, floor, picked, left.argmax(1), (x > 0) & (n[:1] > 1)


def _conv(inputs: int, outputs: int, stride: int) -> nn.Module:
    layer = nn.Conv2d(inputs, outputs, 3, stride, 1)
    return nn.Sequential(layer, nn.BatchNorm2d(outputs), nn.ReLU())


def _tiny_cnn() -> Made:
    layers = [_conv(3, 32, 2), _conv(32, 64, 1), _conv(64, 128, 2), _conv(128, 128, 1)]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10)]
    return nn.Sequential(*layers, *head), (torch.randn(1, 3, 64, 64),)


def _tcn() -> Made:
    layers: list[nn.Module] = []
    for i in range(6):
        layers += [nn.Conv1d(64, 64, 3, dilation=2**i, padding=2**i), nn.PReLU(64)]
    return nn.Sequential(*layers, nn.ConvTranspose1d(64, 1, 16, 8, 4)), (torch.randn(1, 64, 500),)


def _conv3d() -> Made:
    layers = [nn.Conv3d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool3d(2), nn.Conv3d(16, 32, 3)]
    return nn.Sequential(*layers), (torch.randn(1, 3, 8, 32, 32),)


def _recurrent(layer: nn.RNNBase) -> Made:
    return Recurrent(layer), (torch.randn(1, 50, layer.input_size),)


def _einsum() -> Made:
    q, k, v = torch.randn(3, 1, 64, 4, 64)
    return Einsum(), (q, k, v)


def _grid_sample() -> Made:
    grid = torch.rand(1, 64, 64, 2) * 2.2 - 1.1
    return GridSample(), (torch.randn(1, 3, 48, 48), grid)


LAYERS: dict[str, Callable[[], Made]] = {
    "tiny-cnn": _tiny_cnn,
    "lstm": lambda: _recurrent(nn.LSTM(40, 128, 2, batch_first=True)),
    "gru-bidirectional": lambda: _recurrent(nn.GRU(40, 96, batch_first=True, bidirectional=True)),
    "rnn": lambda: _recurrent(nn.RNN(40, 64, batch_first=True)),
    "unet": lambda: (UNet(), (torch.randn(1, 3, 128, 128),)),
    "tcn": _tcn,
    "conv3d": _conv3d,
    "moe": lambda: (Moe(), (torch.randn(16, 64),)),
    "detection-head": lambda: (DetectionHead(), (torch.randn(1, 32, 20, 20),)),
    "grid-sample": _grid_sample,
    "stft": lambda: (Spectrum(), (torch.randn(1, 8000),)),
    "einsum": _einsum,
    "gnn": lambda: (Gnn(), (torch.randn(50, 16), torch.randint(0, 50, (2, 200)))),
    "loop": lambda: (torch.jit.script(Halve()), (torch.randn(8, 8),)),
    "odd-slices": lambda: (OddSlices(), (torch.randn(4, 11), torch.arange(4)[:, None])),
}
