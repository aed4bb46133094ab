"""``Resize`` in all its forms, axis by axis, as gathers and sums with constant weights.

Along an axis that grows by a whole factor in both planes of an image TVM's own kernel is right, and
stays.  Else a tap (`resize_taps`) is a Gather by constant places, times constant weights:

    nearest       Gather
    linear        Gather w0 + Gather w1
    cubic         four of them
    antialias     MatMul by the weights as a matrix: many taps, all dense

What lies outside of the input (``tf_crop_and_resize``) is set to the given value at last.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from onnx import TensorProto

from tvm_hetero.frontends.onnx.expansion.registry import rewrites
from tvm_hetero.frontends.onnx.expansion.resize_taps import (
    ResizedAxis,
    Taps,
    antialiased_taps,
    coordinates,
    cubic_taps,
    linear_taps,
    nearest_places,
)
from tvm_hetero.frontends.onnx.expansion.rewriting import Rewriting
from tvm_hetero.frontends.onnx.model.axes import checked_axis

_MODES = frozenset(
    {
        "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
        "tf_crop_and_resize", "tf_half_pixel_for_nn",
    }
)  # fmt: skip
_ROUNDINGS = frozenset({"round_prefer_floor", "round_prefer_ceil", "floor", "ceil", "simple"})
_IMPORTED = frozenset({"half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"})
_FLOATS = (TensorProto.FLOAT, TensorProto.DOUBLE)
_EXACT_BITS = 16  # of integers that float32 holds


@rewrites("Resize")
def rewrite_resize(r: Rewriting) -> bool:
    """Resize the axes that change, one after the other."""
    mode = _choice(r, "coordinate_transformation_mode", "half_pixel", _MODES)
    kind = _choice(r, "mode", "nearest", frozenset({"nearest", "linear", "cubic"}))
    axes = {d: axis for d, axis in _axes(r, mode).items() if not axis.is_identity}
    if not axes:
        r.alias(r.inputs[0], r.outputs[0])
        return True
    if not all(axis.size for axis in axes.values()):
        sizes = dict(enumerate(r.dims(r.inputs[0]))) | {d: a.size for d, a in axes.items()}
        nothing = np.zeros([sizes[d] for d in sorted(sizes)], r.dtype(r.inputs[0]))
        r.add("Identity", [r.constant(nothing)], r.outputs)
        return True
    if kind == "nearest":
        return _nearest(r, axes, mode)
    if _is_imported(r, axes, mode):
        return _leave_out_empty(r)
    _interpolate(r, {d: _taps(r, axis, kind, mode) for d, axis in axes.items()})
    return True


def _choice(r: Rewriting, name: str, default: str, known: frozenset[str]) -> str:
    value = str(r.attribute(name, default))
    if value not in known:
        r.refuse(f"has {name} = {value!r}; one of {', '.join(sorted(known))} was expected")
    return value


def _axes(r: Rewriting, mode: str) -> dict[int, ResizedAxis]:
    """Return how each axis is resized."""
    dims = r.dims(r.inputs[0])
    rank = len(dims)
    chosen = [checked_axis(r.refuse, d, rank) for d in r.attribute("axes") or range(rank)]
    scales, sizes = _scales_and_sizes(r, [dims[d] for d in chosen])
    roi = np.array([0.0] * len(chosen) + [1.0] * len(chosen))
    if mode == "tf_crop_and_resize" and r.operand(1):
        roi = r.constant_of(1, "region").astype(np.float64)
    if not len(scales) == len(sizes) == len(chosen) == len(roi) // 2:
        r.refuse(f"has {len(scales)} scales or sizes for {len(chosen)} axes")
    for d, size in zip(chosen, sizes, strict=True):
        if not dims[d] and size:
            r.refuse(f"makes {int(size)} elements of axis {d}, which has none")
    return {
        d: ResizedAxis(dims[d], int(size), float(scale), (float(start), float(end)))
        for d, size, scale, start, end in zip(
            chosen, sizes, scales, roi[: len(chosen)], roi[len(chosen) :], strict=True
        )
    }


def _scales_and_sizes(r: Rewriting, lengths: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Return the scales and sizes of the chosen axes, of which the model gives one or the other."""
    old = np.array(lengths)
    if r.operand(2) and r.constant_of(2, "scales").size:
        scales = r.constant_of(2, "scales")
        # In float32, where 3 x 5/3 is 5.
        return scales, np.floor(old.astype(np.float32) * scales).astype(np.int64)
    sizes = r.constant_of(3, "sizes")
    with np.errstate(divide="ignore", invalid="ignore"):  # of nothing, which is refused
        scales = sizes / old
    policy = r.attribute("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch":
        return scales, sizes
    if policy not in ("not_larger", "not_smaller"):
        r.refuse(f"has keep_aspect_ratio_policy = {policy!r}")
    scale = scales.min() if policy == "not_larger" else scales.max()
    return np.full(len(old), scale), np.floor(scale * old + 0.5).astype(np.int64)


def _is_imported(r: Rewriting, axes: Mapping[int, ResizedAxis], mode: str) -> bool:
    """Whether TVM computes the very same: planes of whole factors, without further options."""
    rank = r.rank(r.inputs[0])
    return (
        rank == 4
        and set(axes) <= {2, 3}
        and r.element_type(r.inputs[0]) == TensorProto.FLOAT
        and mode in _IMPORTED
        and not r.attribute("axes")
        and not r.attribute("antialias", 0)
        and not r.attribute("exclude_outside", 0)
        and r.attribute("keep_aspect_ratio_policy", "stretch") == "stretch"
        and all(a.size == a.length * a.scale and a.size > 1 < a.length for a in axes.values())
        # TVM divides by what lies between the corners, also along the axis that stays.
        and (mode != "align_corners" or min(r.dims(r.inputs[0])[2:]) > 1)
    )


def _leave_out_empty(r: Rewriting) -> bool:
    """Leave a node to TVM, to which an operand without elements is one that is there."""
    names = [n if n and _size(r, n) else "" for n in r.inputs]
    if names == r.inputs:
        return False
    r.add("Resize", names, r.outputs, **{a.name: r.attribute(a.name) for a in r.node.attribute})
    return True


def _size(r: Rewriting, name: str) -> int:
    return math.prod(r.dims(name))


def _nearest(r: Rewriting, axes: Mapping[int, ResizedAxis], mode: str) -> bool:
    rounding = _choice(r, "nearest_mode", "round_prefer_floor", _ROUNDINGS)
    places = {d: nearest_places(axis, mode, rounding) for d, axis in axes.items()}
    x = r.inputs[0]
    dims = list(r.dims(x))
    if mode != "tf_crop_and_resize" and _repeats(axes, places):
        _repeat(r, axes, dims)
        return True
    outside = {}
    for d, axis in axes.items():
        if mode == "tf_crop_and_resize":
            at = coordinates(axis, mode)
            outside[d] = (at < 0) | (at > axis.length - 1)
        x = r.add("Gather", [x, r.constant(places[d], np.int64)], axis=d)
    _set_outside(r, x, outside, len(dims))
    return True


def _repeats(axes: Mapping[int, ResizedAxis], places: Mapping[int, np.ndarray]) -> bool:
    """Whether each element is repeated a whole number of times."""
    return all(
        axis.length > 0
        and axis.size % axis.length == 0
        and np.array_equal(places[d], np.arange(axis.size) // (axis.size // axis.length))
        for d, axis in axes.items()
    )


def _repeat(r: Rewriting, axes: Mapping[int, ResizedAxis], dims: list[int]) -> None:
    """Repeat by a broadcast over new axes, whose indices divide by a constant."""
    apart, repeated, joined = [], [], []
    for d, length in enumerate(dims):
        apart.append(length)
        repeated.append(length)
        joined.append(length)
        if d in axes:
            times = axes[d].size // length
            apart.append(1)
            repeated.append(times)
            joined[-1] *= times
    x = r.add("Reshape", [r.inputs[0], r.constant(apart, np.int64)])
    x = r.add("Expand", [x, r.constant(repeated, np.int64)])
    r.add("Reshape", [x, r.constant(joined, np.int64)], r.outputs)


def _taps(r: Rewriting, axis: ResizedAxis, kind: str, mode: str) -> Taps:
    exclude = bool(r.attribute("exclude_outside", 0))
    a = float(r.attribute("cubic_coeff_a", -0.75)) if kind == "cubic" else None
    if r.attribute("antialias", 0):
        return antialiased_taps(axis, mode, a, exclude=exclude)
    if a is not None:
        return cubic_taps(axis, mode, a, exclude=exclude)
    return linear_taps(axis, mode)


def _interpolate(r: Rewriting, taps: Mapping[int, Taps]) -> None:
    """Sum up along each axis, in float32 at least."""
    x = r.inputs[0]
    kind, rank = r.element_type(x), r.rank(x)
    lengths = dict(enumerate(r.dims(x)))
    dtype = r.dtype(x) if kind in _FLOATS else np.dtype(np.float32)
    if kind not in _FLOATS:
        x = r.add("Cast", [x], to=TensorProto.FLOAT)
    dense = bool(r.attribute("antialias", 0))
    for d, each in taps.items():
        if dense:
            r.afford(len(each.places), lengths[d])
        x = (
            _dense(r, x, d, rank, each.matrix(lengths[d]), dtype)
            if dense
            else _sparse(r, x, d, rank, each, dtype)
        )
    if r.dtype(r.inputs[0]).kind in "iu":
        x = _whole(r, x, rounded=dense or r.attribute("mode") == "cubic")
    if kind not in _FLOATS:
        x = r.add("Cast", [x], to=kind)
    _set_outside(r, x, {d: each.outside for d, each in taps.items()}, rank)


def _whole(r: Rewriting, x: str, *, rounded: bool) -> str:
    """Return what is to become integers: rounded and within their type, or just not below itself.

    ONNX Runtime cuts what is linear off and rounds the rest; onnx's evaluator rounds all. What is
    whole but for float32's rounding stays so: of equal numbers there would be some that are 1 less.
    """
    if not rounded:
        return r.add("Mul", [x, r.constant(1 + 2**-20, np.float32)])
    ends = np.iinfo(r.dtype(r.inputs[0]))
    bounds = [r.constant(end, np.float32) for end in (ends.min, ends.max)]
    x = r.add("Round", [x])
    return r.add("Clip", [x, *bounds]) if ends.bits <= _EXACT_BITS else x


def _sparse(r: Rewriting, x: str, d: int, rank: int, taps: Taps, dtype: np.dtype) -> str:
    """Return the sum of what is gathered, each with its weight."""
    total = ""
    for place, weight in zip(taps.places.T, taps.weights.T, strict=True):
        if not np.any(weight):
            continue
        gathered = r.add("Gather", [x, r.constant(place, np.int64)], axis=d)
        column = weight.reshape(-1, *[1] * (rank - d - 1))
        term = r.add("Mul", [gathered, r.constant(column, dtype)])
        total = r.add("Add", [total, term]) if total else term
    return total


def _dense(r: Rewriting, x: str, d: int, rank: int, matrix: np.ndarray, dtype: np.dtype) -> str:
    """Return the product with the matrix of weights along an axis."""
    if d == rank - 1:
        return r.add("MatMul", [x, r.constant(matrix.T, dtype)])
    if d == rank - 2:
        return r.add("MatMul", [r.constant(matrix, dtype), x])
    last = [*range(d), *range(d + 1, rank), d]
    back = [*range(d), rank - 1, *range(d, rank - 1)]
    turned = r.add("Transpose", [x], perm=last)
    product = r.add("MatMul", [turned, r.constant(matrix.T, dtype)])
    return r.add("Transpose", [product], perm=back)


def _set_outside(r: Rewriting, x: str, outside: Mapping[int, np.ndarray], rank: int) -> None:
    """Give the result, with the model's value where an output lies outside of the input."""
    mask = np.zeros((1,) * rank, bool)
    for d, each in outside.items():
        mask = mask | each.reshape(-1, *[1] * (rank - d - 1))
    if not mask.any():
        r.alias(x, r.outputs[0])
        return
    value = r.like(r.attribute("extrapolation_value", 0.0), r.inputs[0])
    r.add("Where", [r.constant(mask), value, x], r.outputs)
