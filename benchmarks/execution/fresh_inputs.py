"""Inputs that nothing has been calibrated or checked on, and kinds that no check draws."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tvm_hetero.executor.inputs import TensorInfo
from tvm_hetero.pipeline.precision.input_kinds import KINDS, draw_inputs

# Seeds that nothing else draws from.
FIRST = 5000
Inputs = dict[str, "np.ndarray[Any, Any]"]
_Shape = tuple[int, ...]


def fresh_inputs(infos: Sequence[TensorInfo], each: int) -> Iterator[tuple[str, Inputs]]:
    """So many inputs of each kind that checks draw too, with its name."""
    for kind in KINDS:
        for seed in range(FIRST, FIRST + each):
            yield kind, draw_inputs(infos, kind, seed)


def strange_inputs(infos: Sequence[TensorInfo], each: int) -> Iterator[tuple[str, Inputs]]:
    """So many inputs of each kind that no check draws; none for a model of integers."""
    if not any("float" in info.dtype for info in infos):
        return
    for kind, draw in _STRANGE.items():
        for seed in range(FIRST, FIRST + each):
            values = draw_inputs(infos, "normal", seed)
            rng = np.random.default_rng(seed)
            for info in infos:
                if "float" in info.dtype:
                    values[info.name] = draw(rng, info.shape).astype(info.dtype)
            yield kind, values


def _blocks(rng: np.random.Generator, shape: _Shape) -> np.ndarray[Any, Any]:
    """Twenty boxes of one value each, one over the other."""
    values = np.zeros(shape)
    for _ in range(20):
        starts = [int(rng.integers(0, size)) for size in shape]
        box = tuple(
            slice(start, start + 1 + int(rng.integers(0, size)))
            for start, size in zip(starts, shape, strict=True)
        )
        values[box] = rng.standard_normal()
    return values


def _strokes(rng: np.random.Generator, shape: _Shape) -> np.ndarray[Any, Any]:
    """1 everywhere, as paper is, with thin lines of -1 along the last axes."""
    values = np.ones(shape)
    for _ in range(30):
        axis = int(rng.integers(max(0, len(shape) - 2), len(shape)))
        at: list[Any] = [slice(None)] * len(shape)
        for other in range(max(0, len(shape) - 2), len(shape)):
            start = int(rng.integers(0, shape[other]))
            at[other] = slice(start, start + (shape[other] // 4 if other == axis else 2))
        values[tuple(at)] = -1
    return values


_STRANGE: dict[str, Callable[[np.random.Generator, _Shape], np.ndarray[Any, Any]]] = {
    "shifted": lambda rng, shape: 2 + rng.standard_normal(shape),
    "blocks": _blocks,
    "strokes": _strokes,
}
