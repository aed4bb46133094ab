"""Operators that networks have now and then; `recipes` has the common ones."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, helper

from tests.fuzz.growing import BOOL, FLOAT, INT32, INT64, FuzzValue, GrowingModel
from tests.fuzz.recipes import recipe

# Functions and the range of arguments in which they are smooth.
_WITHIN = {
    "Acos": (-0.75, 0.75), "Asin": (-0.75, 0.75), "Atanh": (-0.75, 0.75), "Tan": (-1.25, 1.25),
    "Acosh": (1.5, 4), "Log": (0.25, 4), "Sqrt": (0.25, 4), "Reciprocal": (0.25, 4),
}  # fmt: skip
_BITS_SINCE, _GELU_SINCE, _GRID_SINCE, _DFT_SINCE = 18, 20, 20, 20
_AXES_ARE_OPERAND = 18
_NARROW = (
    TensorProto.UINT8, TensorProto.INT8, TensorProto.UINT16, TensorProto.INT16, TensorProto.UINT32,
    TensorProto.UINT64,
)  # fmt: skip


def _clipped(m: GrowingModel, x: FuzzValue, low: float, high: float) -> str:
    bounds = [m.constant(bound, np.float32) for bound in (low, high)]
    return m.nodes[-1].output[0] if m.add("Clip", [x.name, *bounds]) else x.name


@recipe
def within(m: GrowingModel) -> bool:
    """A function that is smooth in a part of the numbers."""
    x, operator = m.pick(), m.choose(list(_WITHIN))
    return x is not None and m.add(operator, [_clipped(m, x, *_WITHIN[operator])])


@recipe
def shaped(m: GrowingModel) -> bool:
    """Activations with a slope, a threshold or an approximation."""
    x = m.pick(ranks=(1, 5))
    if x is None:
        return False
    operator = m.choose(["PRelu", "Shrink", "Gelu", "Dropout"])
    if operator == "PRelu":
        slope = m.constant(m.rng.random(x.dims[-1:]).astype(np.float32))
        return m.add("PRelu", [x.name, slope])
    if operator == "Shrink":
        exact = m.pick(exact=True)
        given = {"lambd": 0.5, "bias": m.choose([0.0, 0.25])}
        return exact is not None and m.add("Shrink", [exact.name], exact=True, **given)
    if operator == "Gelu":
        how = m.choose(["none", "tanh"])
        return m.opset >= _GELU_SINCE and m.add("Gelu", [x.name], approximate=how)
    return m.add("Dropout", [x.name], exact=x.exact)


@recipe
def normalized(m: GrowingModel) -> bool:
    """Norms over an axis, and of each channel."""
    x = m.pick(ranks=(2, 4))
    if x is None:
        return False
    if x.rank == 4 and x.exact and m.flag():
        axes = m.choose([[0, 2, 3], [2, 3]])
        return m.add("MeanVarianceNormalization", [x.name], axes=axes)
    axis, p = m.axis(x.rank), m.choose([1, 2])
    bounded = _clipped(m, x, 0.25, 4)
    return m.add("LpNormalization", [bounded], axis=axis, p=p)


@recipe
def questions(m: GrowingModel) -> bool:
    """What a number is: infinite, none, the largest of a row."""
    x = m.pick(exact=True, ranks=(1, 4))
    if x is None:
        return False
    operator = m.choose(["IsNaN", "IsInf", "Hardmax"])
    if operator == "Hardmax":
        return m.add("Hardmax", [x.name], exact=True, axis=m.axis(x.rank))
    if not m.add("Div", [x.name, m.constant(np.zeros((), np.float32))], exact=True):
        return False
    # No one else reads it: what becomes of no number is everybody's own matter.
    divided = m.values.pop()
    return m.add(operator, [divided.name], exact=True)


@recipe
def bits(m: GrowingModel) -> bool:
    """Operations on bits."""
    x = m.pick((INT64, INT32), exact=True)
    if x is None or m.opset < _BITS_SINCE:
        return False
    operator = m.choose(["BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot"])
    dtype = np.int64 if x.kind == INT64 else np.int32
    other = [] if operator == "BitwiseNot" else [m.constant(m.integer(-9, 9), dtype)]
    return m.add(operator, [x.name, *other], exact=True)


@recipe
def odd_powers(m: GrowingModel) -> bool:
    """Powers that no one writes; what becomes of NaN is read by no one."""
    x = m.pick()
    exponent = m.choose([0, -1, 1.5, -2, 0.3, 40, np.nan, np.inf, -np.inf])
    return x is not None and m.add("Pow", [x.name, m.constant(exponent, np.float32)], last=True)


@recipe
def narrow_integers(m: GrowingModel) -> bool:
    """Signs, remainders and means of integers that are rarely anything but indices."""
    x = m.pick((INT64, INT32), exact=True)
    if x is None:
        return False
    if m.flag() and x.rank:
        axes = m.axes(x.rank)
        if m.opset < _AXES_ARE_OPERAND:
            return m.add("ReduceMean", [x.name], exact=True, axes=axes, keepdims=m.flag())
        operands = [x.name, m.constant(axes, np.int64)]
        return m.add("ReduceMean", operands, exact=True, keepdims=m.flag())
    kind = m.choose(_NARROW)
    if not m.add("Cast", [x.name], exact=True, to=kind):
        return False
    narrow = m.nodes[-1].output[0]
    if m.flag():
        return m.add("Sign", [narrow], exact=True)
    divisor = m.constant(m.integer(1, 7), helper.tensor_dtype_to_np_dtype(kind))
    return m.add(m.choose(["Mod", "Div"]), [narrow, divisor], exact=True)


@recipe
def out_of_range(m: GrowingModel) -> bool:
    """Numbers as integers that do not hold them."""
    x = m.pick(exact=True)
    if x is None:
        return False
    far = m.constant(m.choose([3e9, -3e9, 1e18, 1e19, 1e30, np.inf]), np.float32)
    if not m.add("Mul", [x.name, far], exact=True):
        return False
    large = m.values.pop()
    # Of uint32 ONNX Runtime itself says one thing in vectors and another behind them.
    kinds = [INT32, INT64, TensorProto.UINT64]
    return m.add("Cast", [large.name], exact=True, last=True, to=m.choose(kinds))


@recipe
def lengths_of_shapes(m: GrowingModel) -> bool:
    """Shapes as values, and tensors of a shape."""
    x = m.pick((FLOAT, INT64, BOOL), ranks=(1, 4))
    if x is None:
        return False
    operator = m.choose(["Shape", "Size", "ConstantOfShape", "EyeLike"])
    if operator == "ConstantOfShape":
        made = m.add("Shape", [x.name], exact=True)
        return made and m.add("ConstantOfShape", [m.nodes[-1].output[0]], exact=True)
    if operator == "EyeLike":
        y = m.pick(ranks=(2, 2))
        return y is not None and m.add("EyeLike", [y.name], exact=True, k=m.integer(-2, 2))
    return m.add(operator, [x.name], exact=True)


@recipe
def moved_elements(m: GrowingModel) -> bool:
    """Elements that are put elsewhere, or of which some are left."""
    x = m.pick(ranks=(2, 4))
    if x is None:
        return False
    form = m.choose(["ReverseSequence", "ScatterElements", "Compress", "CastLike"])
    if form == "ReverseSequence":
        lengths = m.constant(m.rng.integers(1, x.dims[0] + 1, x.dims[1]), np.int64)
        axes = {"time_axis": 0, "batch_axis": 1}
        return m.add("ReverseSequence", [x.name, lengths], exact=x.exact, **axes)
    if form == "ScatterElements":
        axis = m.integer(0, x.rank - 1)
        # No place twice: which of two values stays is for no one to say.
        places = np.argsort(m.rng.random(x.dims), axis=axis)
        values = m.constant(m.rng.integers(-8, 9, x.dims) / 4, np.float32)
        operands = [x.name, m.constant(places, np.int64), values]
        return m.add("ScatterElements", operands, exact=x.exact, axis=axis)
    if form == "Compress":
        axis = m.integer(0, x.rank - 1)
        kept = m.rng.random(x.dims[axis]) < 0.6
        kept[0] = True
        given = [x.name, m.constant(kept, np.bool_)]
        return m.add("Compress", given, exact=x.exact, axis=axis)
    return m.add("CastLike", [x.name, m.constant(0, np.float32)], exact=x.exact)


@recipe
def windows_of_powers(m: GrowingModel) -> bool:
    """Pools of norms."""
    x = m.pick(ranks=(3, 4))
    if x is None:
        return False
    bounded = _clipped(m, x, 0.25, 4)
    if m.flag():
        return m.add("GlobalLpPool", [bounded], p=m.choose([1, 2]))
    kernel = [min(m.integer(1, 3), d) for d in x.dims[2:]]
    strides = [m.integer(1, 2) for _ in kernel]
    return m.add("LpPool", [bounded], kernel_shape=kernel, strides=strides, p=m.choose([1, 2]))


@recipe
def products_by_letters(m: GrowingModel) -> bool:
    """Einsum of one or two tensors."""
    x = m.pick(ranks=(2, 3))
    if x is None:
        return False
    letters = "abc"[: x.rank]
    if m.flag():
        order = "".join(m.rng.permutation(list(letters)).tolist())
        kept = order[: m.integer(0, x.rank)]
        return m.add("Einsum", [x.name], equation=f"{letters}->{kept}")
    weight = m.weight(x.dims[-1], m.integer(1, 5))
    equation = f"{letters},{letters[-1]}z->{letters[:-1]}z"
    return m.add("Einsum", [x.name, weight], equation=equation)


@recipe
def sampled(m: GrowingModel) -> bool:
    """Pixels between pixels, and spectra."""
    x = m.pick(ranks=(3, 4))
    if x is None:
        return False
    if x.rank == 4 and m.opset >= _GRID_SINCE and m.flag():
        grid = (m.rng.random((x.dims[0], 3, 4, 2)) * 1.8 - 0.9).astype(np.float32)
        mode, around = m.choose(["linear", "cubic"]), m.choose(["zeros", "border", "reflection"])
        corners = {"align_corners": m.flag(), "mode": mode, "padding_mode": around}
        return m.add("GridSample", [x.name, m.constant(grid)], **corners)
    if m.opset < _DFT_SINCE:
        return False
    # Which of several infinite numbers make no number is the algorithm's matter.
    bounded = _clipped(m, x, -4, 4)
    wide = m.add("Unsqueeze", [bounded, m.constant([x.rank], np.int64)])
    axis = m.constant(m.integer(0, x.rank - 1), np.int64)
    return wide and m.add("DFT", [m.nodes[-1].output[0], "", axis], last=True)


@recipe
def sums_of_logarithms(m: GrowingModel) -> bool:
    """Reductions that end in a logarithm or a determinant."""
    x = m.pick(ranks=(2, 4))
    if x is None:
        return False
    if x.dims[-1] == x.dims[-2] and m.flag():
        return m.add("Det", [_clipped(m, x, -2, 2)])
    axes = m.axes(x.rank)
    bounded = _clipped(m, x, 0.25, 4)
    if m.opset < 18:
        return m.add("ReduceLogSum", [bounded], axes=axes, keepdims=m.flag())
    return m.add("ReduceLogSum", [bounded, m.constant(axes, np.int64)], keepdims=m.flag())
