"""Operators that move values: shapes, orders, parts, repetition, padding."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
from tvm import relax, topi

from tvm_hetero.frontends.relay.operators.elementwise import reshape
from tvm_hetero.frontends.relay.operators.reshape_codes import new_shape
from tvm_hetero.frontends.relay.operators.rule_context import Result, Rule, Site, constant, shape_of

_MOST_PARTS = 4096


def _reshape(site: Site) -> Result:
    if len(site.args) == 2:
        asked = site.known(1)
        if asked is None:
            raise site.error("the new shape depends on the data; save the module with fixed shapes")
        site.ignore("newshape")
        codes = [int(v) for v in asked.reshape(-1)]
    else:
        site.expect(1)
        codes = list(site.ints("newshape"))
    allow_zero, reverse = site.flag("allowzero", False), site.flag("reverse", False)
    try:
        shape = new_shape(site.shape(), codes, allow_zero, reverse)
    except ValueError as error:
        raise site.error(str(error)) from None
    return reshape(site, site.tensor(0), shape)


def _reverse_reshape(site: Site) -> Result:
    site.attributes = {**site.attributes, "reverse": True}
    return _reshape(site)


def _reshape_like(site: Site) -> Result:
    site.expect(2)
    mine, other = site.shape(0), site.shape(1)
    begin, end = site.integer("lhs_begin", 0), site.integer("lhs_end", None)
    other_begin, other_end = site.integer("rhs_begin", 0), site.integer("rhs_end", None)
    taken = other[slice(*slice(other_begin, other_end).indices(len(other)))]
    start, stop, _ = slice(begin, end).indices(len(mine))
    shape = [*mine[:start], *taken, *mine[stop:]]
    if math.prod(shape) != math.prod(mine):
        raise site.error(f"{mine} cannot become {shape}")
    return reshape(site, site.tensor(0), shape)


def _batch_flatten(site: Site) -> Result:
    shape = site.shape()
    return reshape(site, site.tensor(0), [shape[0], math.prod(shape[1:])])


def _squeeze(site: Site) -> Result:
    axes, shape = site.ints("axis", None), site.shape()
    if axes is None:
        return reshape(site, site.tensor(0), [n for n in shape if n != 1])
    gone = {site.axis(a, len(shape)) for a in axes}
    if any(shape[a] != 1 for a in gone):
        raise site.error(f"axis={list(axes)} of {shape} is not of extent 1")
    return reshape(site, site.tensor(0), [n for a, n in enumerate(shape) if a not in gone])


def _expand_dims(site: Site) -> Result:
    shape = site.shape()
    count = site.bounded(site.integer("num_newaxis", 1), "num_newaxis", 64)
    axis = site.axis(site.integer("axis"), len(shape) + 1)
    return reshape(site, site.tensor(0), [*shape[:axis], *[1] * count, *shape[axis:]])


def _transpose(site: Site) -> Result:
    axes, rank = site.ints("axes", None), site.rank()
    order = [site.axis(a, rank, "axes") for a in axes] if axes else list(range(rank))[::-1]
    if sorted(order) != list(range(rank)):
        raise site.error(f"axes={list(axes)} of {rank} dimensions")
    return site.emit(relax.op.permute_dims(site.tensor(0), order))


def _layout_transform(site: Site) -> Result:
    source, target = site.text("src_layout"), site.text("dst_layout")
    return site.permuted(site.tensor(0), source, target)


def _concatenate(site: Site) -> Result:
    parts = site.tensors()
    axis = site.axis(site.integer("axis", 0), len(shape_of(parts[0])))
    return site.emit(relax.op.concat(parts, axis)) if len(parts) > 1 else parts[0]


def _stack(site: Site) -> Result:
    parts = site.tensors()
    shape = shape_of(parts[0])
    axis = site.axis(site.integer("axis", 0), len(shape) + 1)
    raised = [reshape(site, p, [*shape[:axis], 1, *shape[axis:]]) for p in parts]
    return site.emit(relax.op.concat(raised, axis)) if len(raised) > 1 else raised[0]


def _split(site: Site) -> Result:
    """As slices: each reader needs a part alone, and parts are views of no one."""
    axis = site.axis(site.integer("axis", 0), site.rank())
    extent, asked = site.shape()[axis], site.value("indices_or_sections")
    if isinstance(asked, int):
        if asked < 1 or extent % asked:
            raise site.error(f"{extent} cannot be split into {asked} equal parts")
        site.bounded(asked, "the number of parts", _MOST_PARTS)
        cuts = list(range(0, extent + 1, extent // asked))
    else:
        cuts = [0, *(site.ints("indices_or_sections") or []), extent]
        site.bounded(len(cuts) - 1, "the number of parts", _MOST_PARTS)
    return [_slice(site, site.tensor(0), axis, a, b) for a, b in itertools.pairwise(cuts)]


def _slice(site: Site, x: relax.Expr, axis: int, begin: int, end: int) -> relax.Expr:
    if (begin, end) == (0, shape_of(x)[axis]):
        return x
    return site.emit(relax.op.strided_slice(x, [axis], [begin], [end]))


def _strided_slice(site: Site) -> Result:
    shape = site.shape()
    begin, end, strides = _slice_numbers(site)
    axes = site.ints("axes", None)
    axes = [site.axis(a, len(shape), "axes") for a in axes] if axes else list(range(len(begin)))
    by_size = site.choice("slice_mode", ("end", "size"), "end") == "size"
    if by_size:
        end = [b + s if s >= 0 else shape[a] for a, b, s in zip(axes, begin, end, strict=False)]
        strides = [1] * len(begin)
    strides = [*(strides or []), *[1] * (len(begin) - len(strides or []))]
    ends = [*end, *[math.inf] * (len(begin) - len(end))]
    if not len(axes) == len(begin) == len(ends) == len(strides) or 0 in strides:
        raise site.error(f"begin={begin}, end={end}, strides={strides}, axes={axes} do not fit")
    x = site.tensor(0)
    for axis, b, e, s in zip(axes, begin, ends, strides, strict=True):
        x = _strided(site, x, axis, b, e, s)
    return x


def _slice_numbers(site: Site) -> tuple[list[int], list[int], list[int] | None]:
    """Begin, end and strides, which some versions hand over as constants."""
    found: list[Any] = []
    for i, name in enumerate(("begin", "end", "strides")):
        known = site.known(i + 1)
        given = site.ints(name, None)
        if len(site.args) > i + 1 and known is None and given is None:
            raise site.error(f"'{name}' depends on the data; save the module with fixed shapes")
        found.append([int(v) for v in known.reshape(-1)] if known is not None else given)
    if found[0] is None or found[1] is None:
        raise site.error("begin or end is missing")
    return found[0], found[1], found[2]


def _strided(
    site: Site, x: relax.Expr, axis: int, begin: int, end: float, stride: int
) -> relax.Expr:
    extent = shape_of(x)[axis]
    stop = None if math.isinf(end) else int(end)
    start, stop, step = slice(begin, stop, stride).indices(extent)
    if (start, stop, step) == (0, extent, 1):
        return x
    count = len(range(start, stop, step))
    if count == 0:
        raise site.error(f"nothing is left of axis {axis} ({begin}:{end}:{stride} of {extent})")
    if step > 0:
        return site.emit(relax.op.strided_slice(x, [axis], [start], [stop], [step]))
    last = start + (count - 1) * step
    part = relax.op.strided_slice(x, [axis], [last], [start + 1], [-step])
    return site.emit(relax.op.flip(site.emit(part), axis))


def _slice_like(site: Site) -> Result:
    site.expect(2)
    x, like = site.tensor(0), site.shape(1)
    axes = site.ints("axes", None)
    axes = [site.axis(a, site.rank(), "axes") for a in axes] if axes else range(site.rank())
    for axis in axes:
        x = _slice(site, x, axis, 0, like[axis])
    return x


def _tile(site: Site) -> Result:
    return site.emit(relax.op.tile(site.tensor(0), list(site.ints("reps"))))


def _repeat(site: Site) -> Result:
    axis = site.integer("axis", None)
    axis = axis if axis is None else site.axis(axis, site.rank())
    return site.emit(relax.op.repeat(site.tensor(0), site.integer("repeats"), axis))


def _reverse(site: Site) -> Result:
    axis = site.integer("axis", None)
    if axis is None:
        raise site.error("axis is missing")
    return site.emit(relax.op.flip(site.tensor(0), site.axis(axis, site.rank())))


def _pad(site: Site) -> Result:
    widths = [list(pair) for pair in site.value("pad_width")]
    if len(widths) != site.rank() or any(len(p) != 2 or min(p) < 0 for p in widths):
        raise site.error(f"pad_width={widths} for {site.rank()} dimensions")
    mode = site.choice("pad_mode", ("constant", "edge", "reflect"), "constant")
    if len(site.args) == 2:
        known = site.known(1)
        if known is None and mode == "constant":
            raise site.error("pad_value is computed; only a constant is supported")
        value = 0.0 if known is None else float(known.reshape(-1)[0])
        site.ignore("pad_value")
    else:
        site.expect(1)
        value = site.number("pad_value", 0.0)
    if mode != "constant":
        return _padded_by_index(site, site.tensor(0), widths, mode)
    flat = [n for pair in widths for n in pair]
    return site.emit(relax.op.nn.pad(site.tensor(0), flat, pad_value=value))


def _mirror_pad(site: Site) -> Result:
    mode = site.choice("mode", ("SYMMETRIC", "REFLECT"), "SYMMETRIC").lower()
    return _padded_by_index(site, site.tensor(0), [list(p) for p in site.value("pad_width")], mode)


def _padded_by_index(site: Site, x: relax.Expr, widths: list[list[int]], mode: str) -> relax.Expr:
    """Padding with values of the tensor itself: which of them is known beforehand."""
    for axis, (before, after) in enumerate(widths):
        if before or after:
            site.bounded(shape_of(x)[axis] + before + after, "the padded extent")
            how: Any = mode
            places = np.pad(np.arange(shape_of(x)[axis]), (before, after), mode=how)
            x = site.emit(relax.op.take(x, constant(places.astype("int32")), axis, "clip"))
    return x


def _broadcast_to(site: Site) -> Result:
    if len(site.args) == 2:
        known = site.known(1)
        if known is None:
            raise site.error("the shape depends on the data; save the module with fixed shapes")
        site.ignore("shape")
        shape = [int(n) for n in known.reshape(-1)]
    else:
        shape = list(site.ints("shape"))
    site.dtype("dtype")
    return site.emit(relax.op.broadcast_to(site.tensor(0), shape))


def _broadcast_to_like(site: Site) -> Result:
    site.expect(2)
    return site.emit(relax.op.broadcast_to(site.tensor(0), site.shape(1)))


def _depth_to_space(site: Site) -> Result:
    block = site.integer("block_size", 1)
    mode = site.choice("mode", ("DCR", "CRD"), "DCR")
    layout = site.choice("layout", ("NCHW", "NHWC"), "NCHW")
    x = site.permuted(site.tensor(0), layout, "NCHW")
    return site.permuted(site.te(topi.nn.depth_to_space, x, block, "NCHW", mode), "NCHW", layout)


def _space_to_depth(site: Site) -> Result:
    block = site.integer("block_size", 1)
    layout = site.choice("layout", ("NCHW", "NHWC"), "NCHW")
    site.require("mode", ["", "DCR", "CRD"])
    x = site.permuted(site.tensor(0), layout, "NCHW")
    return site.permuted(site.te(topi.nn.space_to_depth, x, block, "NCHW"), "NCHW", layout)


RULES: dict[str, Rule] = {
    "reshape": _reshape,
    "dyn.reshape": _reshape,
    "contrib_reverse_reshape": _reverse_reshape,
    "reshape_like": _reshape_like,
    "nn.batch_flatten": _batch_flatten,
    "squeeze": _squeeze,
    "expand_dims": _expand_dims,
    "transpose": _transpose,
    "layout_transform": _layout_transform,
    "concatenate": _concatenate,
    "stack": _stack,
    "split": _split,
    "strided_slice": _strided_slice,
    "dyn.strided_slice": _strided_slice,
    "slice_like": _slice_like,
    "tile": _tile,
    "repeat": _repeat,
    "reverse": _reverse,
    "nn.pad": _pad,
    "nn.mirror_pad": _mirror_pad,
    "broadcast_to": _broadcast_to,
    "dyn.broadcast_to": _broadcast_to,
    "broadcast_to_like": _broadcast_to_like,
    "nn.depth_to_space": _depth_to_space,
    "nn.space_to_depth": _space_to_depth,
}
