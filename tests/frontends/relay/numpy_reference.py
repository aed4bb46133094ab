"""What Relay's operators compute, written out with NumPy: plain loops, to judge ours by."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

Array = np.ndarray


def _pad(x: Array, padding: Sequence[int], value: float = 0.0) -> Array:
    dims = x.ndim - 2
    widths = [(0, 0), (0, 0), *zip(padding[:dims], padding[dims:], strict=True)]
    return np.pad(x, widths, constant_values=value)


def _window(x: Array, at: Sequence[int], steps: Sequence[int], counts: Sequence[int]) -> Array:
    """What stands at one place of the kernel, for all outputs."""
    where = [slice(a, a + s * (n - 1) + 1, s) for a, s, n in zip(at, steps, counts, strict=True)]
    return x[(slice(None), slice(None), *where)]


def conv(
    x: Array,
    w: Array,
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int] | None = None,
    groups: int = 1,
) -> Array:
    """A convolution, channels first, ``OI...``, any number of dimensions."""
    dims = x.ndim - 2
    dilation = dilation or [1] * dims
    x = _pad(x, padding)
    reach = [d * (k - 1) + 1 for d, k in zip(dilation, w.shape[2:], strict=True)]
    counts = [(n - r) // s + 1 for n, r, s in zip(x.shape[2:], reach, strides, strict=True)]
    parts = []
    for xs, ws in zip(np.split(x, groups, 1), np.split(w, groups, 0), strict=True):
        total: Array | float = 0.0
        for k in itertools.product(*map(range, w.shape[2:])):
            at = [i * d for i, d in zip(k, dilation, strict=True)]
            seen = _window(xs, at, strides, counts)
            total = total + np.einsum("nc...,oc->no...", seen, ws[(slice(None), slice(None), *k)])
        parts.append(total)
    return np.concatenate(parts, 1)


def conv_transpose(
    x: Array,
    w: Array,
    strides: Sequence[int],
    padding: Sequence[int],
    output_padding: Sequence[int],
    groups: int = 1,
) -> Array:
    """The transposed convolution, ``IO...``: each input spreads over the outputs."""
    dims = x.ndim - 2
    sizes = [
        (n - 1) * s + k + o
        for n, s, k, o in zip(x.shape[2:], strides, w.shape[2:], output_padding, strict=True)
    ]
    parts = []
    for xs, ws in zip(np.split(x, groups, 1), np.split(w, groups, 0), strict=True):
        out = np.zeros((x.shape[0], w.shape[1], *sizes), x.dtype)
        for k in itertools.product(*map(range, w.shape[2:])):
            share = np.einsum("nc...,co->no...", xs, ws[(slice(None), slice(None), *k)])
            _window(out, k, strides, x.shape[2:])[...] += share
        parts.append(out)
    out = np.concatenate(parts, 1)
    cut = [slice(b, n - a) for b, a, n in zip(padding[:dims], padding[dims:], sizes, strict=True)]
    return out[(slice(None), slice(None), *cut)]


def pool(
    x: Array,
    kind: str,
    size: Sequence[int],
    strides: Sequence[int],
    padding: Sequence[int],
    *,
    ceil: bool = False,
    count_padding: bool = False,
) -> Array:
    """Maximum or average of windows, channels first."""
    dims = x.ndim - 2
    rounded = math.ceil if ceil else math.floor
    counts = [
        rounded((n + padding[i] + padding[dims + i] - size[i]) / strides[i]) + 1
        for i, n in enumerate(x.shape[2:])
    ]
    out = np.zeros((*x.shape[:2], *counts), x.dtype)
    for place in itertools.product(*map(range, counts)):
        begins = [p * s - b for p, s, b in zip(place, strides, padding[:dims], strict=True)]
        inside = [
            slice(max(b, 0), min(b + k, n))
            for b, k, n in zip(begins, size, x.shape[2:], strict=True)
        ]
        seen = x[(slice(None), slice(None), *inside)]
        axes = tuple(range(2, x.ndim))
        count = math.prod(size) if count_padding else math.prod(seen.shape[2:])
        value = seen.max(axes) if kind == "max" else seen.sum(axes) / count
        out[(slice(None), slice(None), *place)] = value
    return out


def batch_norm(x: Array, g: Array, b: Array, m: Array, v: Array, axis: int, eps: float) -> Array:
    """Gain and offset with moving statistics along one axis."""
    shape = [1] * x.ndim
    shape[axis] = -1
    g, b, m, v = (a.reshape(shape) for a in (g, b, m, v))
    return g * (x - m) / np.sqrt(v + eps) + b


def standardized(x: Array, axes: tuple[int, ...], eps: float) -> Array:
    """Mean 0 and variance 1 over some axes."""
    mean = x.mean(axes, keepdims=True)
    return (x - mean) / np.sqrt(x.var(axes, keepdims=True) + eps)


def softmax(x: Array, axis: int) -> Array:
    """The softmax."""
    power = np.exp(x - x.max(axis, keepdims=True))
    return power / power.sum(axis, keepdims=True)


def lrn(x: Array, size: int, axis: int, alpha: float, beta: float, bias: float) -> Array:
    """Local response normalization."""
    total = np.zeros_like(x)
    moved, square = np.moveaxis(total, axis, 0), np.moveaxis(x * x, axis, 0)
    for i in range(x.shape[axis]):
        moved[i] = square[max(0, i - size // 2) : i + size // 2 + 1].sum(0)
    return x / (bias + alpha / size * total) ** beta
