"""Networks as lists of layer shapes, a line each: for networks of which no model is at hand.

    network vgg16
    # convolution: name, H, W, C, R, S, K
    conv1_1, 224, 224, 3, 3, 3, 64
    # pooling: name, pool, H, W, C of what it reads, height and width of what it makes
    pool1, pool, 224, 224, 64, 112, 112
    # fully connected: name, fc, H, W, C of what it reads, outputs
    fc6, fc, 7, 7, 512, 4096

That is the tensor template of P. N. Soomro's papers (Pipe-search, CF 2021, doi:10.1145/
3457388.3458656; Shisha, PPAM 2022, arXiv 2202.11575) with the two kinds beside convolutions that
the weights of a layer (`LayerShape.weight`; equations 1.1 and 1.2 of the thesis) are defined for:

    convolution       H W C R S K    multiply-adds; H and W of what it makes, C channels of a group
    fully connected   H W C F        multiply-adds
    pooling           H W C          numbers that it reads

A list is a chain: each layer reads what the one before it makes. Shortcuts are not in it, so of a
network with branches it has all the work, and of its tensors those between neighbours in the list.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NoReturn, get_args

from tvm_hetero.errors import FormatError
from tvm_hetero.util.quote import quote
from tvm_hetero.util.untrusted_names import printable
from tvm_hetero.zoo.work_graph import Builder, Kind, Value, WorkGraph

SUFFIX = ".layers"
LayerKind = Literal["conv", "pool", "fc"]
# The numbers of a line, by its kind.
_NUMBERS: dict[LayerKind, str] = {
    "conv": "H, W, C, R, S, K", "pool": "H, W, C, H', W'", "fc": "H, W, C, F",
}  # fmt: skip
# No network has more; a file that does is no list of layers.
MAX_LAYERS, MAX_BYTES, _LARGEST = 10_000, 1 << 20, 1 << 20


@dataclass(frozen=True)
class LayerShape:
    """One line: a layer's name, its kind, and its numbers, as the file's text has them."""

    name: str
    kind: LayerKind
    numbers: tuple[int, ...]

    @property
    def weight(self) -> int:
        """How much work it is: multiply-adds, or what it reads."""
        return math.prod(self.numbers[:3] if self.kind == "pool" else self.numbers)

    @property
    def makes(self) -> tuple[int, ...]:
        """The tensor that it makes, channels first."""
        if self.kind == "conv":
            height, width, *_, channels = self.numbers
            return channels, height, width
        if self.kind == "pool":
            return self.numbers[2:]
        return self.numbers[-1:]

    @property
    def parameters(self) -> int:
        """Numbers in its weights, and one for each channel that it makes."""
        if self.kind == "conv":
            *_, c, r, s, k = self.numbers
            return c * r * s * k + k
        return 0 if self.kind == "pool" else self.weight + self.numbers[-1]


@dataclass(frozen=True)
class LayerList:
    """A network: its name and its layers in order."""

    name: str
    layers: tuple[LayerShape, ...]

    @property
    def weight(self) -> int:
        """Multiply-adds of all layers, and what those that pool read."""
        return sum(layer.weight for layer in self.layers)

    def work_graph(self) -> WorkGraph:
        """The chain of its layers, in numbers of 32 bits.

        It reads what its first layer would read with stride 1: the line does not say more.
        """
        net = Builder(self.name)
        first = self.layers[0].numbers
        value = net.input(first[2], first[0], first[1])
        for number, layer in enumerate(self.layers):
            value = _add(net, layer, value, first=number == 0)
        net.output(value)
        return net.build()

    def text(self) -> str:
        """The list as a file has it."""
        rows = [", ".join([row.name, *_kind_column(row), *map(str, row.numbers)])
                for row in self.layers]  # fmt: skip
        return "\n".join([f"network {self.name}", *rows]) + "\n"


def _kind_column(layer: LayerShape) -> list[str]:
    return [] if layer.kind == "conv" else [layer.kind]


def _add(net: Builder, layer: LayerShape, value: Value, *, first: bool) -> Value:
    if layer.kind == "pool":
        return net.add(
            "pool", "elementwise", [value], layer.makes, flops=layer.weight, name=layer.name
        )
    kind, op = _work_of(layer, first=first)
    return net.add(
        op, kind, [value], layer.makes,
        flops=2.0 * layer.weight, weights=layer.parameters, name=layer.name,
    )  # fmt: skip


def _work_of(layer: LayerShape, *, first: bool) -> tuple[Kind, str]:
    """The kind of a layer's work, and what it is called."""
    if layer.kind == "fc":
        return "gemm", "dense"
    _, _, c, r, s, k = layer.numbers
    # One channel of many is what a depthwise convolution reads; an image may have one alone.
    kind: Kind = "depthwise" if c == 1 and k > 1 and r * s > 1 and not first else "conv"
    return kind, f"{kind}{r}x{s}"


def read_layer_list(path: str | os.PathLike[str]) -> LayerList:
    """Read a file of layers.

    Raises
    ------
    FormatError
        If it cannot be read, or is no such list; the line is named.
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
        text = raw.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise FormatError(f"{path}: cannot be read: {reason}") from None
    if len(raw) > MAX_BYTES:
        raise FormatError(f"{path}: larger than {MAX_BYTES} bytes, which no list of layers is")
    return parse_layer_list(text, str(path))


def parse_layer_list(text: str, where: str) -> LayerList:
    """Make a list of layers of the text of a file, which `where` names in errors.

    Raises
    ------
    FormatError
        If a line is no layer, a name is given twice, or there is no layer at all.
    """
    lines = _lines(text)
    number, head = next(lines, (1, ""))
    words = head.split()
    if len(words) != 2 or words[0] != "network":
        _refuse(where, number, f"expected 'network NAME' first, got {quote(head)}")
    layers: dict[str, LayerShape] = {}
    for number, line in lines:
        layer = _parse_line(line, where, number)
        if layer.name in layers or layer.name in ("input", "output"):
            taken = "is given twice" if layer.name in layers else "is what the chain's ends have"
            _refuse(where, number, f"the name {quote(layer.name)} {taken}; choose another one")
        if len(layers) == MAX_LAYERS:
            _refuse(where, number, f"expected {MAX_LAYERS} layers at most")
        layers[layer.name] = layer
    if not layers:
        _refuse(where, number, "expected layers after the network's name, got none")
    return LayerList(words[1], tuple(layers.values()))


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines that say something, each with its number; `#` begins a comment."""
    for number, line in enumerate(text.splitlines(), 1):
        said = line.partition("#")[0].strip()
        if said:
            yield number, said


def _parse_line(line: str, where: str, number: int) -> LayerShape:
    name, *rest = (piece.strip() for piece in line.split(","))
    kind: LayerKind = "conv"
    for known in get_args(LayerKind):
        if rest and rest[0] == known:
            kind, rest = known, rest[1:]
    wanted = _NUMBERS[kind]
    if not name or len(rest) != wanted.count(",") + 1:
        shape = f"name, {wanted}" if kind == "conv" else f"name, {kind}, {wanted}"
        _refuse(where, number, f"expected '{shape}', got {quote(line)}")
    numbers = tuple(_positive(piece, where, number) for piece in rest)
    return LayerShape(name, kind, numbers)


def _positive(text: str, where: str, number: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 8 and 0 < int(text) <= _LARGEST):
        _refuse(where, number, f"expected a whole number from 1 to {_LARGEST}, got {quote(text)}")
    return int(text)


def _refuse(where: str, number: int, why: str) -> NoReturn:
    raise FormatError(f"{printable(where, limit=None)}, line {number}: {why}")
