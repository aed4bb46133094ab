"""Random inputs of several kinds: an error that one kind makes says little of another.

    normal      standard normal values
    uniform     from 0 to 1
    smooth      as pictures are: a coarse grid of normal values, interpolated linearly
    sparse      normal values, nine in ten of them 0
    constant    one normal value everywhere
    extreme     -s, 0 or s, with an s of 1/255, 1 or 255 that is drawn for the input

Integers lie in the input's range (from 0 to 9 where the model says none): any of it; in runs
(smooth); mostly the least one (sparse); one everywhere (constant); the least or the greatest one
(extreme).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from tvm_hetero.executor.inputs import TensorInfo

Array = np.ndarray[Any, Any]
_Draw = Callable[[np.random.Generator, tuple[int, ...]], Array]

# Of a smooth input: so many values along each axis are drawn, the others lie between them.
_GRID = 5
_ZEROS = 0.9
_SCALES = (1 / 255, 1.0, 255.0)
_RUN = 8


def draw_inputs(infos: Iterable[TensorInfo], kind: str, seed: int) -> dict[str, Array]:
    """Inputs for a run, all of one of `KINDS`."""
    rng = np.random.default_rng([KINDS.index(kind), seed])
    return {info.name: _draw(info, kind, rng) for info in infos}


def _draw(info: TensorInfo, kind: str, rng: np.random.Generator) -> Array:
    if "float" in info.dtype:  # bfloat16 too, whose kind is not numpy's "f"
        return _FLOATS[kind](rng, info.shape).astype(info.dtype)
    least, most = info.range or (0, 9)
    return _integers(rng, info.shape, kind, least, most).astype(info.dtype)


def _integers(
    rng: np.random.Generator, shape: tuple[int, ...], kind: str, least: int, most: int
) -> Array:
    values = rng.integers(least, most + 1, shape)
    if kind == "constant":
        return np.full(shape, rng.integers(least, most + 1))
    if kind == "sparse":
        return np.where(rng.random(shape) < _ZEROS, least, values)
    if kind == "extreme":
        return np.where(rng.random(shape) < 0.5, least, most)
    if kind == "smooth" and shape:
        return np.take(values, np.arange(shape[-1]) // _RUN * _RUN, axis=-1)
    return values


def _smooth(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    values = rng.standard_normal([min(_GRID, size) for size in shape])
    for axis, size in enumerate(shape):
        count = values.shape[axis]
        at = np.linspace(0, count - 1, size)
        low = np.minimum(at.astype(int), max(count - 2, 0))
        share = (at - low).reshape([-1 if i == axis else 1 for i in range(len(shape))])
        upper = np.take(values, np.minimum(low + 1, count - 1), axis)
        values = (1 - share) * np.take(values, low, axis) + share * upper
    return values


def _sparse(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return np.where(rng.random(shape) < _ZEROS, 0.0, rng.standard_normal(shape))


def _extreme(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return float(rng.choice(_SCALES)) * rng.integers(-1, 2, shape)


_FLOATS: dict[str, _Draw] = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "uniform": lambda rng, shape: rng.random(shape),
    "smooth": _smooth,
    "sparse": _sparse,
    "constant": lambda rng, shape: np.full(shape, rng.standard_normal()),
    "extreme": _extreme,
}
KINDS = tuple(_FLOATS)
