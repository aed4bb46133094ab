"""Forms of operators that move elements: shapes, slices, padding."""

from __future__ import annotations

import numpy as np

from tests.fuzz.operator_forms import Form, FormDraw, form, longs


@form("Reshape")
def reshape(d: FormDraw, operator: str) -> Form:
    """Zeros that copy, or mean zero; one open dimension."""
    x = d.array(d.any_type(), d.dims())
    dims = list(d.rng.permutation(x.shape).tolist())
    if d.flag(0.4):
        dims = [-1]
    elif dims and d.flag():
        dims[d.integer(0, len(dims) - 1)] = d.choose([-1, 0])
    if d.flag(0.3):
        dims.insert(d.integer(0, len(dims)), 1)
    zero = {"allowzero": d.integer(0, 1)} if d.opset >= 14 else {}
    return Form(operator, [x, longs(dims)], zero, d.fix(1))


@form("Transpose")
def transpose(d: FormDraw, operator: str) -> Form:
    """Any order, or the reverse."""
    x = d.array(d.any_type(), d.dims())
    return Form(operator, [x], d.some(perm=d.rng.permutation(x.ndim).tolist()) if x.ndim else {})


@form("Squeeze", "Unsqueeze")
def squeeze(d: FormDraw, operator: str) -> Form:
    """Dimensions of one."""
    dims = list(d.dims(0, 3))
    added = d.integer(1, 2)
    rank = len(dims) + added
    axes = sorted(d.rng.permutation(rank)[:added].tolist())
    if operator == "Squeeze":
        for axis in axes:
            dims.insert(axis, 1)
    axes = [a - rank if d.flag(0.4) and d.opset >= 11 else a for a in axes]
    if d.flag(0.3):
        axes = axes[::-1]
    x = d.array(d.any_type(), dims)
    none = operator == "Squeeze" and d.flag(0.2)
    if d.opset < 13:
        return Form(operator, [x], {} if none else {"axes": axes})
    return Form(operator, [x] if none else [x, longs(axes)], {}, d.fix(1))


@form("Flatten")
def flatten(d: FormDraw, operator: str) -> Form:
    """To two dimensions, at either end too."""
    x = d.array(d.any_type(), d.dims())
    axis = d.integer(-x.ndim if d.opset >= 11 else 0, x.ndim)
    return Form(operator, [x], d.some(axis=axis))


@form("Expand")
def expand(d: FormDraw, operator: str) -> Form:
    """To a shape, which may itself be broadcast."""
    dims = d.dims()
    shape = [1 if d.flag(0.2) else n for n in dims]
    return Form(operator, [d.array(d.any_type(), d.broadcast(dims)), longs(shape)], {}, d.fix(1))


@form("Tile")
def tile(d: FormDraw, operator: str) -> Form:
    """Repeated, none times too."""
    x = d.array(d.any_type(), d.dims())
    counts = [d.integer(0 if d.flag(0.1) else 1, 3) for _ in x.shape]
    return Form(operator, [x, longs(counts)], {}, d.fix(1))


@form("Concat")
def concat(d: FormDraw, operator: str) -> Form:
    """Along an axis, of pieces that may have nothing."""
    kind, dims = d.any_type(), list(d.dims(1))
    axis = d.axis(len(dims)) if d.opset >= 11 else d.integer(0, len(dims) - 1)
    pieces = []
    for _ in range(d.integer(1, 4)):
        dims[axis] = d.integer(0 if d.zeros else 1, 4)
        pieces.append(d.array(kind, dims))
    return Form(operator, pieces, {"axis": axis})


@form("Split")
def split(d: FormDraw, operator: str) -> Form:
    """Into equal parts, given ones, or nearly equal ones."""
    dims = list(d.dims(1))
    axis = d.axis(len(dims)) if d.opset >= 11 else d.integer(0, len(dims) - 1)
    parts = [d.integer(0 if d.zeros else 1, 3) for _ in range(d.integer(1, 3))]
    even = d.flag(0.4)
    if even and d.opset < 18:
        parts = [parts[0]] * len(parts)
    dims[axis] = sum(parts)
    x, attributes = d.array(d.any_type(), dims), d.some(axis=axis)
    if "axis" not in attributes:
        x = np.moveaxis(x, axis, 0)
    if even:
        more = {"num_outputs": len(parts)} if d.opset >= 18 else {}
        return Form(operator, [x], attributes | more, outputs=len(parts))
    if d.opset < 13:
        return Form(operator, [x], attributes | {"split": parts}, outputs=len(parts))
    return Form(operator, [x, longs(parts)], attributes, d.fix(1), len(parts))


@form("Slice")
def slice_(d: FormDraw, operator: str) -> Form:
    """Steps in both directions, ends far beyond."""
    x = d.array(d.any_type(), d.dims(1))
    axes = d.axes(x.ndim)
    far = [2**31 - 1, 2**63 - 1, -(2**31), -(2**63)]
    ends = [[d.choose([*range(-7, 8), *far]) for _ in axes] for _ in range(2)]
    if d.opset < 10:
        axes = [a % x.ndim for a in axes]
        return Form(operator, [x], {"starts": ends[0], "ends": ends[1], "axes": axes})
    steps = [d.choose([1, 1, 2, 3, -1, -2, 100, -100, 2**62]) for _ in axes]
    kind = d.choose(["int64", "int64", "int32"])
    rows = [
        np.clip(longs(row), *((-(2**31), 2**31 - 1) if kind == "int32" else (None, None))).astype(
            kind
        )
        for row in (*ends, axes, steps)
    ]
    if len(axes) == x.ndim and d.flag(0.2):
        rows[2] = np.arange(x.ndim).astype(kind)
    return Form(operator, [x, *rows[: d.choose([3, 4, 4])]], {}, d.fix(1, 2, 3, 4, share=0.95))


@form("Pad")
def pad(d: FormDraw, operator: str) -> Form:
    """Each mode, to less than before too."""
    modes = ["constant", "constant", "reflect", "edge", *(["wrap"] if d.opset >= 19 else [])]
    mode = d.choose(modes)
    x = d.array(d.float_type() if d.opset < 11 else d.any_type(), d.dims(1))
    axes = d.axes(x.ndim) if d.opset >= 18 and d.flag() else list(range(x.ndim))
    most = 2
    pads = [d.integer(-1 if d.flag(0.2) else 0, most) for _ in range(2 * len(axes))]
    if d.opset < 11:
        return Form(operator, [x], {"pads": pads, **d.some(mode=mode, value=1.5)})
    operands = [x, longs(pads)]
    named = len(axes) < x.ndim or axes != list(range(x.ndim))
    if mode == "constant" and d.flag():
        operands.append(d.array(str(x.dtype), ()))
    if named:
        kind = d.choose(["int64", "int32"])
        operands += [None] * (3 - len(operands)) + [np.asarray(axes, kind)]
    return Form(operator, operands, {"mode": mode}, d.fix(1, 2, 3))


@form("DepthToSpace", "SpaceToDepth")
def blocks(d: FormDraw, operator: str) -> Form:
    """Blocks of channels."""
    block, (batch, channels, high, wide) = d.integer(1, 3), d.dims(4, 4, 3)
    if operator == "SpaceToDepth":
        return Form(
            operator,
            [d.array(d.any_type(), (batch, channels, high * block, wide * block))],
            {"blocksize": block},
        )
    mode = d.some(mode=d.choose(["DCR", "CRD"])) if d.opset >= 11 else {}
    x = d.array(d.any_type(), (batch, channels * block**2, high, wide))
    return Form(operator, [x], {"blocksize": block, **mode})


@form("Trilu", "EyeLike")
def triangles(d: FormDraw, operator: str) -> Form:
    """Diagonals far outside, too."""
    x = d.array(d.any_type(), d.dims(2, 4 if operator == "Trilu" else 2))
    far = d.integer(-7, 7)
    if operator == "EyeLike":
        return Form(operator, [x], d.some(k=far, dtype=d.choose([1, 7, 6, 11])))
    operands = [x, longs(far)] if d.flag(0.7) else [x]
    return Form(operator, operands, d.some(upper=d.integer(0, 1)), d.fix(1))


@form("OneHot")
def one_hot(d: FormDraw, operator: str) -> Form:
    """Indices outside are cold."""
    depth = np.asarray(d.integer(1, 5), d.choose(["int64", "int32", "float32"]))
    depth = depth.reshape(d.choose([(), (1,)]))
    indices = d.array(d.choose(["int64", "int32", "float32"]), d.dims(0, 3), high=7)
    indices = np.trunc(indices)
    axis = d.integer(-indices.ndim - 1, indices.ndim)
    return Form(
        operator, [indices, depth, d.array(d.number_type(), (2,))], d.some(axis=axis), d.fix(1)
    )


@form("ReverseSequence")
def reverse(d: FormDraw, operator: str) -> Form:
    """Heads of sequences, either axis first."""
    x = d.array(d.any_type(), d.dims(2))
    time = d.integer(0, 1)
    lengths = [
        d.integer(0 if d.flag(0.2) else 1, max(x.shape[time], 1)) for _ in range(x.shape[1 - time])
    ]
    return Form(operator, [x, longs(lengths)], {"time_axis": time, "batch_axis": 1 - time})


@form("Compress")
def compress(d: FormDraw, operator: str) -> Form:
    """A constant condition, shorter than the axis too."""
    x = d.array(d.any_type(), d.dims(1))
    attributes = d.some(axis=d.axis(x.ndim) if d.opset >= 11 else d.integer(0, x.ndim - 1))
    n = x.shape[attributes["axis"]] if attributes else x.size
    return Form(operator, [x, d.array("bool", (d.integer(min(n, 1), n),))], attributes, d.fix(1))


@form("Range")
def range_(d: FormDraw, operator: str) -> Form:
    """Constant ends."""
    kind = d.choose(["float32", "float64", "int16", "int32", "int64"])
    ends = [np.asarray(d.choose(n), kind) for n in ([0, -3, 5], [7, 0, -4, 5], [1, 2, -1, -3])]
    return Form(operator, ends, {}, frozenset({0, 1, 2}))


@form("Shape", "Size", "NonZero")
def shape(d: FormDraw, operator: str) -> Form:
    """What it is like."""
    x = d.array(d.any_type(), d.dims())
    ends = {"start": d.integer(-6, 6), "end": d.integer(-6, 6)}
    part = operator == "Shape" and d.opset >= 15
    return Form(
        operator, [x], d.some(**ends) if part else {}, d.fix(0, share=0.8 * (operator == "NonZero"))
    )


@form("ConstantOfShape")
def constant(d: FormDraw, operator: str) -> Form:
    """A constant of any type."""
    from onnx import numpy_helper

    value = numpy_helper.from_array(d.array(d.any_type(), (1,)))
    return Form(operator, [longs(d.dims())], d.some(value=value), frozenset({0}))


@form("CenterCropPad")
def center(d: FormDraw, operator: str) -> Form:
    """Larger and smaller along some axes."""
    x = d.array(d.any_type(), d.dims(1))
    axes = d.axes(x.ndim) if d.flag() else None
    shape = [d.integer(1, 7) for _ in (axes or x.shape)]
    return Form(operator, [x, longs(shape)], {"axes": axes} if axes else {}, d.fix(1))


@form("Unique")
def unique(d: FormDraw, operator: str) -> Form:
    """Of a constant."""
    x = d.array(d.choose(["float32", "int64", "int8"]), d.dims(1, 2), high=3)
    return Form(operator, [x], d.some(sorted=d.integer(0, 1)), frozenset({0}), 4)
