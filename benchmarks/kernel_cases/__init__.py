"""The kernels that `benchmarks/kernels.py` measures, by family. A new family is one line here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from . import convolutions, products, real_files, rows, windows
from .case import Case


@dataclass(frozen=True)
class Family:
    """``cases`` makes the cases; ``tiny`` the one whose time is the cost of a call."""

    cases: Callable[[], list[Case]]
    tiny: Callable[[], Case]


def _convolutions(family: str) -> Family:
    return Family(partial(convolutions.cases, family), partial(convolutions.tiny, family))


FAMILIES: dict[str, Family] = {
    "conv2d": _convolutions("conv2d"),
    "pointwise": _convolutions("pointwise"),
    "grouped": _convolutions("grouped"),
    "depthwise": _convolutions("depthwise"),
    "dense": Family(products.dense, partial(products.product, 1, 1, 1)),
    "attention": Family(products.attention, partial(products.values, 1, 1, 1, 1, 1)),
    "pool": Family(windows.cases, windows.tiny),
    "softmax": Family(rows.softmax, partial(rows.tiny, "Softmax")),
    "layernorm": Family(rows.layer_norm, partial(rows.layer_norm_case, (1, 1))),
    "lrn": Family(rows.norms, partial(rows.tiny, "Relu")),
    "reduction": Family(rows.reductions, partial(rows.tiny, "ReduceMean")),
    "elementwise": Family(rows.elementwise, partial(rows.tiny, "Relu")),
    "transpose": Family(rows.transposes, partial(rows.tiny, "Transpose")),
    "concat": Family(rows.concats, rows.tiny_concat),
    "real": Family(real_files.cases, real_files.tiny),
}
