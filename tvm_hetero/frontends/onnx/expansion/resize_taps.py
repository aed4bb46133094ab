"""Which elements an axis is resized from, with which weights, as onnx's reference says.

``Resize`` is separable: along each axis, output i is a sum of a few inputs,

    y[i] = sum over t of weights[i, t] * x[places[i, t]]

Where output i lies on the input's axis is its coordinate, in one of seven modes.  Coordinates are
computed in float32, as ONNX Runtime does: in ``nearest`` their rounding decides.  Where length
times scale is no whole number, ``align_corners`` and ``tf_crop_and_resize`` stretch over that very
number, as onnx's tests have it; ONNX Runtime stretches over the whole one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Floats = np.ndarray[Any, Any]


@dataclass(frozen=True)
class ResizedAxis:
    """How one axis is resized.

    Attributes
    ----------
    length, size : int
        Elements before and after.
    scale : float
        As given, or size over length.
    roi : tuple of float
        Beginning and end of the part that is resized, over the length (``tf_crop_and_resize``).
    """

    length: int
    size: int
    scale: float
    roi: tuple[float, float] = (0.0, 1.0)

    @property
    def is_identity(self) -> bool:
        """Whether nothing changes."""
        same = self.length == self.size and bool(np.isclose(self.scale, 1))
        return same and self.roi == (0.0, 1.0)


@dataclass(frozen=True)
class Taps:
    """Places and weights of an axis, and which outputs lie outside of the input."""

    places: np.ndarray[Any, Any]
    weights: Floats
    outside: np.ndarray[Any, Any]

    def matrix(self, length: int) -> Floats:
        """Return the weights as a matrix [output, input]."""
        found = np.zeros((len(self.places), length))
        rows = np.arange(len(self.places))[:, None]
        np.add.at(found, (rows, self.places), self.weights)
        return found


def coordinates(axis: ResizedAxis, mode: str) -> Floats:
    """Return where each output lies on the input's axis."""
    f32 = np.float32
    at = np.arange(axis.size, dtype=f32)
    length, scale = f32(axis.length), f32(axis.scale)
    resized = f32(axis.length * float(axis.scale))
    if mode == "half_pixel" or (mode == "pytorch_half_pixel" and axis.size > 1):
        return (at + f32(0.5)) / scale - f32(0.5)
    if mode == "pytorch_half_pixel":
        return np.zeros(1, f32)
    if mode == "asymmetric":
        return at / scale
    if mode == "half_pixel_symmetric":
        offset = length / 2 * (1 - f32(axis.size) / resized)
        return offset + (at + f32(0.5)) / scale - f32(0.5)
    if mode == "tf_half_pixel_for_nn":
        return (at + f32(0.5)) / scale
    if mode == "align_corners":
        return at * (length - 1) / (resized - 1) if resized != 1 else at * 0
    start, end = (f32(x) for x in axis.roi)
    if resized == 1:
        return np.full(axis.size, (start + end) / 2 * (length - 1), f32)
    return start * (length - 1) + at * (end - start) * (length - 1) / (resized - 1)


def nearest_places(axis: ResizedAxis, mode: str, rounding: str) -> np.ndarray[Any, Any]:
    """Return the one place that each output is of."""
    x = coordinates(axis, mode)
    if rounding == "simple":
        # Of opset 10 and before, as ONNX Runtime reads it.
        rounding = "ceil" if axis.scale < 1 else "floor"
    half = np.float32(0.5)
    if rounding == "floor":
        whole = np.floor(x)
    elif rounding == "ceil":
        whole = np.ceil(x)
    elif rounding == "round_prefer_floor":
        whole = np.ceil(x - half)
    else:
        whole = np.floor(x + half)
    return np.clip(whole, 0, axis.length - 1).astype(np.int64)


def linear_taps(axis: ResizedAxis, mode: str) -> Taps:
    """Return the two neighbours of each output, with what is missing to them as weights."""
    x = coordinates(axis, mode).astype(np.float64)
    low = np.floor(x)
    share = x - low
    return _taps(axis, x, low[:, None] + [0, 1], np.stack([1 - share, share], -1), mode)


def cubic_taps(axis: ResizedAxis, mode: str, a: float, *, exclude: bool) -> Taps:
    """Return four neighbours of each output, weighted by a cubic of their distance."""
    x = coordinates(axis, mode).astype(np.float64)
    places = np.floor(x)[:, None] + [-1, 0, 1, 2]
    return _taps(axis, x, places, cubic(x[:, None] - places, a), mode, exclude=exclude)


def antialiased_taps(axis: ResizedAxis, mode: str, cubic_a: float | None, *, exclude: bool) -> Taps:
    """Return all inputs beneath a filter that is as wide as an output, where that shrinks."""
    x = coordinates(axis, mode).astype(np.float64)
    scale = min(float(axis.scale), 1.0)
    reach = 1 if cubic_a is None else 2
    first = int(np.floor(-reach / scale) + 1)
    count = 2 - 2 * first
    whole = x == np.floor(x)
    # What is right on an input counts as its right end.
    low = np.where(whole, x - 1, np.floor(x))
    places = low[:, None] + np.arange(first, first + count)
    distance = (places - x[:, None]) * scale
    near = np.clip(1 - np.abs(distance), 0, 1) if cubic_a is None else cubic(distance, cubic_a)
    near /= near.sum(-1, keepdims=True)
    return _taps(axis, x, places, near, mode, exclude=exclude)


def cubic(distance: Floats, a: float) -> Floats:
    """Return Keys' weight of an element at a distance."""
    d = np.abs(distance)
    inner = ((a + 2) * d - (a + 3)) * d * d + 1
    outer = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, inner, np.where(d < 2, outer, 0.0))


def _taps(
    axis: ResizedAxis,
    x: Floats,
    places: Floats,
    weights: Floats,
    mode: str,
    *,
    exclude: bool = False,
) -> Taps:
    """Clamp places to the axis, whose ends count for what is beyond, or for nothing."""
    if exclude:
        inside = (places >= 0) & (places < axis.length)
        weights = np.where(inside, weights, 0.0)
        total = weights.sum(-1, keepdims=True)
        weights = weights / np.where(total == 0, 1.0, total)
    outside = np.zeros(len(x), bool)
    if mode == "tf_crop_and_resize":
        outside = (x < 0) | (x > axis.length - 1)
    clamped = np.clip(places, 0, axis.length - 1).astype(np.int64)
    return Taps(clamped, weights, outside)
