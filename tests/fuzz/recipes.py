"""How a random model may grow: for each kind of operator, operands and attributes that fit it.

A recipe adds one node to a `GrowingModel` and returns whether it did; operands come as
constants, as exporters write them.  Forms are those of opset 13 to 17, unless a recipe asks for the
opset.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.fuzz.growing import BOOL, FLOAT, INT32, INT64, FuzzValue, GrowingModel

Recipe = Callable[[GrowingModel], bool]

RECIPES: list[Recipe] = []
NUMBERS = (FLOAT, INT64, INT32)

SMOOTH = (
    "Abs", "Neg", "Tanh", "Sigmoid", "Relu", "Erf", "Exp", "Cos", "Sin", "Atan", "Softsign",
    "Softplus", "Elu", "Selu", "LeakyRelu", "HardSigmoid", "HardSwish", "Celu", "Mish", "Identity",
    "ThresholdedRelu", "Sinh", "Cosh", "Asinh",
)  # fmt: skip
SINCE = {"HardSwish": 14, "Mish": 18, "Celu": 12}
_WRAP_SINCE = 19
_MOST_CHANNELS = 16  # of an image that is convolved to many
_MOST_FACTORS = 60
"""So many of 4 are below what float32 ends at, 2^128."""
JUMPING = ("Floor", "Ceil", "Round", "Sign")


def recipe(function: Recipe) -> Recipe:
    """Register a recipe."""
    RECIPES.append(function)
    return function


def _bounded(m: GrowingModel, value: FuzzValue, bound: int = 4) -> str:
    """Keep large numbers from growing: exponentials of exponentials say nothing."""
    bounds = [m.constant(-bound, np.float32), m.constant(bound, np.float32)]
    return m.nodes[-1].output[0] if m.add("Clip", [value.name, *bounds]) else value.name


def _multiplied(m: GrowingModel, value: FuzzValue) -> str:
    """Factors whose product is finite in any order: infinity times a zero later on is not zero."""
    return _bounded(m, value, 4 if math.prod(value.dims) <= _MOST_FACTORS else 1)


@recipe
def unary(m: GrowingModel) -> bool:
    """A smooth function of each element."""
    x, operator = m.pick(), m.choose(SMOOTH)
    if x is None or SINCE.get(operator, 0) > m.opset:
        return False
    attributes = {}
    if operator in ("Elu", "LeakyRelu", "ThresholdedRelu", "Celu") and m.flag():
        attributes["alpha"] = m.choose([0.25, 0.5, 2.0])
    return m.add(operator, [_bounded(m, x)], **attributes)


@recipe
def jump(m: GrowingModel) -> bool:
    """A function that jumps, of what is exact."""
    x = m.pick(exact=True)
    return x is not None and m.add(m.choose(JUMPING), [x.name], exact=True)


@recipe
def binary(m: GrowingModel) -> bool:
    """Arithmetic of two tensors, or of one and a constant that is broadcast."""
    x = m.pick(NUMBERS)
    if x is None:
        return False
    operator = m.choose(["Add", "Sub", "Mul", "Max", "Min", "Sum", "Mean"])
    if (operator == "Mean" and x.kind != FLOAT) or (operator == "Sum" and x.kind != FLOAT):
        operator = "Add"
    whole = x.exact and x.kind != FLOAT
    return m.add(operator, m.rng.permutation([x.name, _partner(m, x)]).tolist(), exact=whole)


@recipe
def divide(m: GrowingModel) -> bool:
    """Division and remainder by what is not 0."""
    x = m.pick(NUMBERS, exact=True)
    if x is None:
        return False
    divisors = m.rng.choice([-3, -2, 2, 3, 5], _suffix(m, x))
    dtype = {FLOAT: np.float32, INT64: np.int64, INT32: np.int32}[x.kind]
    other = m.constant(divisors.astype(dtype))
    if m.flag():
        return m.add("Div", [x.name, other], exact=x.kind != FLOAT)
    fmod = 1 if x.kind == FLOAT else m.flag()
    return m.add("Mod", [x.name, other], exact=True, fmod=fmod)


@recipe
def power(m: GrowingModel) -> bool:
    """Powers with small exponents."""
    x = m.pick()
    if x is None:
        return False
    exponent = m.choose(
        [m.constant(2, np.float32), m.constant(3, np.int64), m.constant(2, np.int32)]
    )
    return m.add("Pow", [_bounded(m, x), exponent])


@recipe
def compare(m: GrowingModel) -> bool:
    """Comparisons of what is exact."""
    x = m.pick(NUMBERS, exact=True)
    operators = ["Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"]
    return x is not None and m.add(m.choose(operators), [x.name, _partner(m, x)], exact=True)


@recipe
def logic(m: GrowingModel) -> bool:
    """And, or, not."""
    x = m.pick(BOOL)
    if x is None:
        return False
    operator = m.choose(["And", "Or", "Xor", "Not"])
    names = [x.name] if operator == "Not" else [x.name, _partner(m, x)]
    return m.add(operator, names, exact=True)


@recipe
def where(m: GrowingModel) -> bool:
    """A choice between two."""
    c, x = m.pick(BOOL), m.pick((*NUMBERS, BOOL))
    return (
        c is not None
        and x is not None
        and m.add("Where", [c.name, x.name, _partner(m, x)], exact=x.exact)
    )


@recipe
def cast(m: GrowingModel) -> bool:
    """A cast of what is exact."""
    x = m.pick((*NUMBERS, BOOL), exact=True)
    return x is not None and m.add("Cast", [x.name], exact=True, to=m.choose([*NUMBERS, BOOL]))


@recipe
def clip(m: GrowingModel) -> bool:
    """Bounds, one of them or both."""
    x = m.pick()
    if x is None:
        return False
    low, high = m.constant(-1, np.float32), m.constant(0.5, np.float32)
    return m.add("Clip", m.choose([[x.name, low], [x.name, "", high], [x.name, low, high]]),
                 exact=x.exact)  # fmt: skip


@recipe
def reduce(m: GrowingModel) -> bool:
    """Reductions over some axes, or all."""
    x = m.pick(ranks=(1, 5))
    if x is None:
        return False
    operator = m.choose(
        ["ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2",
         "ReduceSumSquare", "ReduceLogSumExp", "ReduceProd"]
    )  # fmt: skip
    axes, keep = m.axes(x.rank), m.flag()
    kept = {"ReduceLogSumExp": _bounded, "ReduceProd": _multiplied}.get(operator)
    source = x.name if kept is None else kept(m, x)
    if operator == "ReduceSum" or m.opset >= 18:
        names = [source] if m.integer(0, 3) == 0 else [source, m.constant(axes, np.int64)]
        return m.add(operator, names, keepdims=keep)
    return m.add(operator, [source], keepdims=keep, axes=axes)


@recipe
def arg(m: GrowingModel) -> bool:
    """Places of the largest and smallest."""
    x = m.pick(ranks=(1, 4), exact=True)
    return x is not None and m.add(
        m.choose(["ArgMax", "ArgMin"]), [x.name], exact=True, axis=m.axis(x.rank),
        keepdims=m.flag(), select_last_index=m.flag(),
    )  # fmt: skip


@recipe
def soft(m: GrowingModel) -> bool:
    """Softmax and its kin."""
    x = m.pick(ranks=(1, 4))
    operators = ["Softmax", "LogSoftmax"]
    return x is not None and m.add(m.choose(operators), [_bounded(m, x)], axis=m.axis(x.rank))


@recipe
def transpose(m: GrowingModel) -> bool:
    """Axes in another order."""
    x = m.pick((*NUMBERS, BOOL), ranks=(2, 5))
    return x is not None and m.add(
        "Transpose", [x.name], exact=x.exact, perm=m.rng.permutation(x.rank).tolist()
    )


@recipe
def reshape(m: GrowingModel) -> bool:
    """Other shapes of the same elements."""
    x = m.pick((*NUMBERS, BOOL), ranks=(1, 5))
    if x is None:
        return False
    form = m.integer(0, 4)
    if form == 0:
        return m.add("Flatten", [x.name], exact=x.exact, axis=m.integer(0, x.rank))
    if form == 1:
        axes = m.constant([m.integer(0, x.rank)], np.int64)
        return m.add("Unsqueeze", [x.name, axes], exact=x.exact)
    if form == 2:
        return m.add("Squeeze", [x.name], exact=x.exact)
    shape = m.choose([[-1], [0, -1], [-1, x.dims[-1]], [1, -1, x.dims[-1], 1]])
    return m.add("Reshape", [x.name, m.constant(shape, np.int64)], exact=x.exact)


@recipe
def slice_(m: GrowingModel) -> bool:
    """A part along some axes, forwards or backwards, to ends far beyond."""
    x = m.pick((*NUMBERS, BOOL), ranks=(1, 4))
    if x is None:
        return False
    axes = m.axes(x.rank)
    steps = [m.choose([1, 1, 2, -1, -2]) for _ in axes]
    starts = [
        m.integer(-x.dims[a], x.dims[a]) if step > 0 else m.choose([-1, 2**31 - 1, x.dims[a] - 1])
        for a, step in zip(axes, steps, strict=True)
    ]
    ends = [
        m.choose([2**63 - 1, x.dims[a], -1]) if s > 0 else m.choose([-(2**63), -x.dims[a] - 1])
        for a, s in zip(axes, steps, strict=True)
    ]
    operands = [m.constant(values, np.int64) for values in (starts, ends, axes, steps)]
    return m.add("Slice", [x.name, *operands], exact=x.exact)


@recipe
def join(m: GrowingModel) -> bool:
    """Concat with itself, or Split in two."""
    x = m.pick((*NUMBERS, BOOL), ranks=(1, 4))
    if x is None:
        return False
    axis = m.axis(x.rank)
    if m.flag() or x.dims[axis] < 2:
        return m.add("Concat", [x.name, x.name], exact=x.exact, axis=axis)
    first = m.integer(1, x.dims[axis] - 1)
    sizes = m.constant([first, x.dims[axis] - first], np.int64)
    return m.add("Split", [x.name, sizes], outputs=2, exact=x.exact, axis=axis)


@recipe
def repeat(m: GrowingModel) -> bool:
    """Tile and Expand."""
    x = m.pick((*NUMBERS, BOOL), ranks=(1, 4))
    if x is None:
        return False
    if m.flag():
        repeats = m.constant([m.integer(1, 4) for _ in x.dims], np.int64)
        return m.add("Tile", [x.name, repeats], exact=x.exact)
    shape = [m.integer(2, 4) if d == 1 else d for d in x.dims]
    return m.add("Expand", [x.name, m.constant([2, *shape], np.int64)], exact=x.exact)


@recipe
def pad(m: GrowingModel) -> bool:
    """More around it, of a constant or of itself."""
    x = m.pick(ranks=(1, 4))
    if x is None:
        return False
    mode = m.choose(["constant", "reflect", "edge", *(["wrap"] if m.opset >= _WRAP_SINCE else [])])
    most = min(2, min(x.dims) - 1) if mode == "reflect" else 2
    if m.wild and m.flag():
        most = 9  # beyond what there is to reflect
    if most < 0:
        return False
    pads = m.constant(m.rng.integers(0, most + 1, 2 * x.rank), np.int64)
    names = [x.name, pads]
    if mode == "constant" and m.flag():
        names.append(m.constant(0.5, np.float32))
    return m.add("Pad", names, exact=x.exact, mode=mode)


@recipe
def gather(m: GrowingModel) -> bool:
    """Elements by indices, also from the end."""
    x = m.pick((*NUMBERS, BOOL), ranks=(1, 4))
    if x is None:
        return False
    axis = m.axis(x.rank)
    size = x.dims[axis]
    form = m.integer(0, 2)
    if form == 0:
        shape = m.choose([(), (1,), (3,), (2, 2)])
        indices = m.constant(m.rng.integers(-size, size, shape), np.int64)
        return m.add("Gather", [x.name, indices], exact=x.exact, axis=axis)
    if form == 1:
        dims = list(x.dims)
        dims[axis] = 2
        indices = m.constant(m.rng.integers(-size, size, dims), np.int64)
        return m.add("GatherElements", [x.name, indices], exact=x.exact, axis=axis)
    depth = m.integer(1, x.rank)
    columns = [m.rng.integers(-d, d, (3, 1)) for d in x.dims[:depth]]
    indices = m.constant(np.concatenate(columns, 1), np.int64)
    return m.add("GatherND", [x.name, indices], exact=x.exact)


@recipe
def scatter(m: GrowingModel) -> bool:
    """Elements put in by indices that do not repeat."""
    x = m.pick(ranks=(1, 3))
    if x is None:
        return False
    rows = m.rng.permutation(x.dims[0])[: max(1, x.dims[0] // 2)]
    indices = m.constant(rows[:, None], np.int64)
    updates = m.weight(len(rows), *x.dims[1:])
    return m.add("ScatterND", [x.name, indices, updates], exact=x.exact)


@recipe
def look_up(m: GrowingModel) -> bool:
    """Elements at places that other values name, in wild models."""
    x, at = m.pick((*NUMBERS, BOOL), ranks=(1, 4)), m.pick((INT64, INT32), ranks=(0, 2))
    if not m.wild or x is None or at is None:
        return False
    form = m.integer(0, 2)
    if form == 0:
        return m.add("Gather", [x.name, at.name], axis=m.axis(x.rank))
    if at.kind != INT64 or at.rank != 1:
        return False
    if form == 1:
        shape = m.constant([at.dims[0], 1], np.int64)
        if not m.add("Reshape", [at.name, shape]):
            return False
        rows = m.nodes[-1].output[0]
        if m.flag() or x.kind != FLOAT:
            return m.add("GatherND", [x.name, rows])
        return m.add("ScatterND", [x.name, rows, m.weight(at.dims[0], *x.dims[1:])])
    if x.rank != 1:
        return False
    return m.add("GatherElements", [x.name, at.name])


@recipe
def triangle(m: GrowingModel) -> bool:
    """A triangle of matrices."""
    x = m.pick((FLOAT, INT64), ranks=(2, 4))
    if x is None or m.opset < 14:
        return False
    k = m.constant(m.integer(-2, 2), np.int64)
    return m.add("Trilu", [x.name, k], exact=x.exact, upper=m.flag())


@recipe
def product(m: GrowingModel) -> bool:
    """Products with constants, and of two computed matrices."""
    x = m.pick(ranks=(1, 4))
    if x is None:
        return False
    form = m.integer(0, 2)
    if form == 0 and x.rank == 2:
        transposed = m.flag()
        n = m.integer(1, 8)
        dims = (n, x.dims[1]) if transposed else (x.dims[1], n)
        names = [x.name, m.weight(*dims), *m.choose([[], [m.weight(n)], [m.weight(1, n)]])]
        return m.add("Gemm", names, transB=transposed, alpha=m.choose([1.0, 0.5]),
                     beta=m.choose([1.0, 2.0]))  # fmt: skip
    if form == 1 and x.rank >= 2:
        perm = [*range(x.rank - 2), x.rank - 1, x.rank - 2]
        if not m.add("Transpose", [x.name], exact=x.exact, perm=perm):
            return False
        return m.add("MatMul", [x.name, m.nodes[-1].output[0]])
    return m.add("MatMul", [x.name, m.weight(x.dims[-1], m.integer(1, 8))])


@recipe
def cut_convolution(m: GrowingModel) -> bool:
    """A convolution of as many channels and points as vectors have lanes, and a part of each row.

    Tiles of points overlap there, and what is behind them wants fewer points than they have.
    """
    x = m.pick(ranks=(3, 4))
    if x is None or x.dims[1] > _MOST_CHANNELS:
        return False
    group = m.choose([g for g in range(1, x.dims[1] + 1) if x.dims[1] % g == 0])
    out = group * m.choose([8, 16, 32])
    kernel = [1] * (x.rank - 3) + [m.integer(1, 4)]
    beside = [0] * (x.rank - 3) + [m.integer(6, 14)]
    weight = m.weight(out, x.dims[1] // group, *kernel)
    if not m.add("Conv", [x.name, weight], group=group, pads=[*beside, *beside]):
        return False
    bounds = [m.integer(0, 2)], [m.choose([-1, -3, 2**31])], [x.rank - 1]
    operands = [m.constant(values, np.int64) for values in bounds]
    return m.add("Slice", [m.nodes[-1].output[0], *operands])


@recipe
def convolution(m: GrowingModel) -> bool:
    """Convolutions of one to three dimensions, strided, dilated, grouped, transposed."""
    x = m.pick(ranks=(3, 5))
    if x is None:
        return False
    space, channels = x.rank - 2, x.dims[1]
    group = m.choose([g for g in (1, 2, 3, channels) if channels % g == 0])
    kernel = [min(m.integer(1, 3), d) for d in x.dims[2:]]
    out = group * m.integer(1, 3)
    attributes: dict[str, Any] = {
        "group": group,
        "strides": [m.integer(1, 2) for _ in range(space)],
        "dilations": [m.integer(1, 2) for _ in range(space)],
    }
    if m.flag():
        attributes["pads"] = m.rng.integers(0, 2, 2 * space).tolist()
    else:
        attributes["auto_pad"] = m.choose(["SAME_UPPER", "SAME_LOWER", "VALID"])
        # ONNX Runtime takes no dilation with these.
        attributes["dilations"] = [1] * space
    bias = [m.weight(out)] if m.flag() else []
    if m.integer(0, 3) == 0:
        weight = m.weight(channels, out // group, *kernel)
        return _transposed(m, x, [x.name, weight, *bias], attributes)
    weight = m.weight(out, channels // group, *kernel)
    return m.add("Conv", [x.name, weight, *bias], **attributes)


def _transposed(m: GrowingModel, x: FuzzValue, names: list[str], given: dict[str, Any]) -> bool:
    """A transposed convolution, of which onnx may be told how large what it makes is."""
    strides = given["strides"]
    form = m.integer(0, 3)
    if form == 0:
        given["output_padding"] = [m.integer(0, stride - 1) for stride in strides]
    elif form == 1 and "pads" not in given:
        given.pop("auto_pad")
        given["output_shape"] = [
            max(1, (d - 1) * stride + m.integer(0, stride))
            for d, stride in zip(x.dims[2:], strides, strict=True)
        ]
    elif form == 2:
        given.pop("auto_pad", None)
    return m.add("ConvTranspose", names, **given)


@recipe
def pool(m: GrowingModel) -> bool:
    """Pooling windows, and over all."""
    x = m.pick(ranks=(3, 5))
    if x is None:
        return False
    if m.integer(0, 3) == 0:
        return m.add(m.choose(["GlobalAveragePool", "GlobalMaxPool"]), [x.name])
    kernel = [min(m.integer(1, 3), d) for d in x.dims[2:]]
    attributes: dict[str, Any] = {
        "kernel_shape": kernel,
        "strides": [m.integer(1, 2) for _ in kernel],
        "ceil_mode": m.flag(),
    }
    if m.flag():
        attributes["pads"] = [int(k > 1) * m.flag() for k in kernel] * 2
    if m.flag():
        return m.add("MaxPool", [x.name], **attributes)
    return m.add("AveragePool", [x.name], count_include_pad=m.flag(), **attributes)


@recipe
def normalize(m: GrowingModel) -> bool:
    """Normalizations over channels, rows and instances."""
    x = m.pick(ranks=(2, 4))
    if x is None:
        return False
    form = m.integer(0, 3)
    if form == 0 and m.opset >= 17:
        axis = m.axis(x.rank)
        dims = x.dims[axis:]
        names = [x.name, m.weight(*dims), *([m.weight(*dims)] if m.flag() else [])]
        return m.add("LayerNormalization", names, axis=axis)
    channels = x.dims[1]
    scale, bias = m.weight(channels), m.weight(channels)
    if form == 1 and x.rank >= 3:
        return m.add("InstanceNormalization", [x.name, scale, bias])
    if form == 2 and x.rank == 4:
        return m.add("LRN", [x.name], size=m.choose([1, 3, 5]))
    variance = m.constant(m.rng.uniform(0.5, 2, channels), np.float32)
    names = [x.name, scale, bias, m.weight(channels), variance]
    return m.add("BatchNormalization", names)


@recipe
def rms(m: GrowingModel) -> bool:
    """Root mean squares over the last axes, and groups of channels."""
    x = m.pick(ranks=(2, 4))
    if x is None:
        return False
    if m.flag() and m.opset >= 23:
        axis = m.axis(x.rank)
        return m.add("RMSNormalization", [x.name, m.weight(*x.dims[axis:])], axis=axis)
    if m.opset < 21 or x.rank < 3:
        return False
    groups = m.choose([g for g in range(1, x.dims[1] + 1) if x.dims[1] % g == 0])
    names = [x.name, m.weight(x.dims[1]), m.weight(x.dims[1])]
    return m.add("GroupNormalization", names, num_groups=groups)


@recipe
def attend(m: GrowingModel) -> bool:
    """Attention of a tensor to itself, heads side by side or apart, and rotation before it."""
    x = m.pick(ranks=(3, 4))
    if x is None or m.opset < 23:
        return False
    heads = m.choose([h for h in range(1, x.dims[-1] + 1) if x.dims[-1] % h == 0])
    names, sizes = [x.name] * 3, {}
    if x.rank == 3:
        sizes = {"q_num_heads": heads, "kv_num_heads": heads}
    if m.flag():
        places = x.dims[-2]
        names.append(m.choose([
            m.weight(places, places),
            m.constant(m.rng.integers(0, 2, (places, places)), np.bool_),
        ]))  # fmt: skip
    return m.add("Attention", names, is_causal=m.flag(), softcap=m.choose([0.0, 1.5]), **sizes)


@recipe
def rotate(m: GrowingModel) -> bool:
    """Pairs of numbers that are turned by the place that they are at."""
    x = m.pick(ranks=(4, 4))
    if x is None or m.opset < 23 or x.dims[3] % 2:
        return False
    angles = m.rng.uniform(0, 6, (x.dims[0], x.dims[2], x.dims[3] // 2))
    tables = [m.constant(f(angles), np.float32) for f in (np.cos, np.sin)]
    return m.add("RotaryEmbedding", [x.name, *tables], interleaved=m.flag())


@recipe
def resize(m: GrowingModel) -> bool:
    """Images made larger or smaller by whole factors."""
    x = m.pick(ranks=(4, 4))
    if x is None:
        return False
    mode = m.choose(["nearest", "linear", "cubic"])
    coordinates = m.choose(["half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"])
    attributes = {"nearest_mode": m.choose(["floor", "ceil"])} if mode == "nearest" else {}
    if m.flag():
        # Sizes that are whole: of others onnx and ONNX Runtime say different things.
        last = m.choose([1, 2, 3] if x.dims[3] % 2 else [0.5, 1.5, 2])
        scales = m.constant([1, 1, m.choose([1, 2, 3]), last], np.float32)
        names = [x.name, "", scales]
    else:
        sizes = [*x.dims[:2], m.integer(1, 9), m.integer(1, 9)]
        names = [x.name, "", "", m.constant(sizes, np.int64)]
    return m.add("Resize", names, mode=mode, coordinate_transformation_mode=coordinates,
                 **attributes)  # fmt: skip


@recipe
def blocks(m: GrowingModel) -> bool:
    """Channels to space and back, where blocks of 2 x 2 fit."""
    x = m.pick(ranks=(4, 4))
    if x is None:
        return False
    if x.dims[1] % 4 == 0:
        mode = m.choose(["DCR", "CRD"])
        return m.add("DepthToSpace", [x.name], exact=x.exact, blocksize=2, mode=mode)
    if x.dims[2] % 2 or x.dims[3] % 2:
        return False
    return m.add("SpaceToDepth", [x.name], exact=x.exact, blocksize=2)


@recipe
def count(m: GrowingModel) -> bool:
    """Running sums and the largest few."""
    x = m.pick((FLOAT, INT64), ranks=(1, 4), exact=True)
    if x is None:
        return False
    axis = m.axis(x.rank)
    if m.flag():
        place = m.constant(axis, np.int64)
        return m.add("CumSum", [x.name, place], exact=x.kind != FLOAT, exclusive=m.flag(),
                     reverse=m.flag())  # fmt: skip
    k = m.constant([m.integer(1, x.dims[axis])], np.int64)
    return m.add("TopK", [x.name, k], outputs=2, exact=True, axis=axis, largest=m.flag())


@recipe
def once_more(m: GrowingModel) -> bool:
    """One-hot rows of whole numbers."""
    x = m.pick(INT64, ranks=(0, 3), exact=True)
    if x is None:
        return False
    depth, values = m.constant(m.choose([3, [4]]), np.int64), m.constant([0, 1], np.float32)
    return m.add("OneHot", [x.name, depth, values], exact=True, axis=m.choose([-1, 0]))


def _suffix(m: GrowingModel, x: FuzzValue) -> tuple[int, ...]:
    """A shape that broadcasts to that of `x`."""
    start = m.integer(0, x.rank)
    return tuple(1 if m.integer(0, 3) == 0 else d for d in x.dims[start:])


def _partner(m: GrowingModel, x: FuzzValue) -> str:
    """A value of the same type that broadcasts with `x`: one that is there, or a constant."""
    same = [
        v for v in m.values if v.kind == x.kind and v.dims == x.dims and (v.exact or not x.exact)
    ]
    if same and m.flag():
        return str(m.choose(same).name)
    shape = _suffix(m, x)
    if x.kind == FLOAT:
        return m.constant(m.rng.integers(-8, 9, shape) / 4, np.float32)
    dtype = {INT64: np.int64, INT32: np.int32, BOOL: np.bool_}[x.kind]
    return m.constant(
        m.rng.integers(0 if x.kind == BOOL else -5, 2 if x.kind == BOOL else 6, shape), dtype
    )


@recipe
def recurrent(m: GrowingModel) -> bool:
    """A recurrent cell over a tensor of rank 3: steps, sequences, numbers."""
    x = m.pick(ranks=(3, 3))
    if x is None:
        return False
    operator, gates = m.choose([("LSTM", 4), ("GRU", 3), ("RNN", 1)])
    direction = m.choose(["forward", "reverse", "bidirectional"])
    (steps, batch, width), hidden = x.dims, m.integer(1, 20)
    d = 2 if direction == "bidirectional" else 1
    weights = [m.weight(d, gates * hidden, width), m.weight(d, gates * hidden, hidden)]
    bias = m.weight(d, 2 * gates * hidden) if m.flag() else ""
    lengths = m.constant(m.rng.integers(0, steps + 1, batch), np.int32) if m.flag() else ""
    start = m.weight(d, batch, hidden) if m.flag() else ""
    attributes: dict[str, Any] = {}
    if operator == "GRU":
        attributes["linear_before_reset"] = m.flag()
    outputs = 3 if operator == "LSTM" else 2
    operands = [_bounded(m, x), *weights, bias, lengths, start]
    return m.add(operator, operands, outputs, hidden_size=hidden, direction=direction, **attributes)
