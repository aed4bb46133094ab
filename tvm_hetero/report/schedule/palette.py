"""Colours of operator kinds: few, fixed, and told apart by colour-blind eyes.

A model has dozens of fused kernels (``fused_conv2d3_add_relu2``) but only a handful of *families*
that matter to a reader of a chart. The colours are those of Okabe and Ito (2008, "Color Universal
Design") without its pale yellow, which vanishes on white; they are assigned once, so that a
convolution is blue in every chart of this project.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class ColorFamily:
    """A group of operator kinds with one colour; `text` is readable upon `fill`."""

    name: str
    fill: str
    text: str


_BLUE = ("#0072b2", "#ffffff")
_VERMILLION = ("#d55e00", "#ffffff")
_GREEN = ("#009e73", "#ffffff")
_PURPLE = ("#cc79a7", "#111111")
_ORANGE = ("#e69f00", "#111111")
_SKY = ("#56b4e9", "#111111")
_SLATE = ("#6b7280", "#ffffff")
_TEAL = ("#0f766e", "#ffffff")
_GREY = ("#a8adb5", "#111111")
OTHER = ColorFamily("other", *_GREY)

# The first family with a word that is found in the kind's name wins: a fused kernel is named by
# its heaviest part, so heavier families stand first.
_FAMILIES: tuple[tuple[ColorFamily, tuple[str, ...]], ...] = (
    (ColorFamily("copy", *_SLATE), ("copy", "to_vdevice")),
    (ColorFamily("segment", *_TEAL), ("segment", "call")),
    (ColorFamily("convolution", *_BLUE), ("conv",)),
    (ColorFamily("matrix product", *_VERMILLION), ("matmul", "dense", "gemm", "linear", "einsum")),
    (ColorFamily("pooling", *_GREEN), ("pool",)),
    (ColorFamily("normalisation", *_PURPLE), ("norm", "softmax", "lrn")),
    (
        ColorFamily("data movement", *_ORANGE),
        (
            *("concat", "reshape", "transpose", "pad", "split", "slice", "layout", "flatten"),
            *("take", "gather", "expand_dims", "squeeze", "broadcast"),
        ),
    ),
    (
        ColorFamily("elementwise", *_SKY),
        ("relu", "add", "mul", "sub", "div", "sigmoid", "tanh", "exp", "sum", "clip", "power"),
    ),
)
# For graphs whose kinds say nothing to us (a researcher's "A", "B"): colours by how often each
# occurs. Greys stay for the rest and for copies.
_SPARE = (_BLUE, _VERMILLION, _GREEN, _PURPLE, _ORANGE, _SKY)


def colour_families(kinds: Iterable[str]) -> dict[str, ColorFamily]:
    """The family of every kind that occurs; repeated kinds weigh more for unknown names."""
    counts = Counter(kinds)
    families = {kind: _known_family(kind) for kind in counts}
    work = [kind for kind, family in families.items() if family.name != "copy"]
    if work and all(families[kind] is OTHER for kind in work):
        often = sorted((kind for kind in work if kind), key=lambda kind: (-counts[kind], kind))
        spare = (ColorFamily(kind, *colour) for kind, colour in zip(often, _SPARE, strict=False))
        families.update({family.name: family for family in spare})
    return families


def _known_family(kind: str) -> ColorFamily:
    words = re.sub(r"[^a-z_]", "", kind.lower())
    for family, marks in _FAMILIES:
        if any(mark in words for mark in marks):
            return family
    return OTHER
