"""Forms of operators that go element by element, reduce, or search along an axis."""

from __future__ import annotations

import numpy as np
from onnx import helper

from tests.fuzz.operator_forms import FLOATS, INTEGERS, Form, FormDraw, form, longs

_ALPHA = (
    "Elu",
    "LeakyRelu",
    "ThresholdedRelu",
    "Celu",
    "HardSigmoid",
    "Selu",
    "Shrink",
    "Gelu",
    "Swish",
)
_UNARY = (
    "Abs",
    "Neg",
    "Ceil",
    "Floor",
    "Round",
    "Sign",
    "Sqrt",
    "Reciprocal",
    "Exp",
    "Log",
    "Erf",
    "Sin",
    "Cos",
    "Tan",
    "Asin",
    "Acos",
    "Atan",
    "Sinh",
    "Cosh",
    "Tanh",
    "Asinh",
    "Acosh",
    "Atanh",
    "Sigmoid",
    "Softplus",
    "Softsign",
    "Relu",
    "HardSwish",
    "Mish",
    "IsNaN",
    "Identity",
)
_REDUCTIONS = (
    "ReduceSum",
    "ReduceMean",
    "ReduceMax",
    "ReduceMin",
    "ReduceProd",
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSum",
    "ReduceLogSumExp",
    "ReduceSumSquare",
)


@form(*_UNARY)
def unary(d: FormDraw, operator: str) -> Form:
    """A function of each element."""
    d.nan = True
    whole = operator in ("Abs", "Neg", "Sign", "Relu", "Identity") and d.flag()
    return Form(operator, [d.array(d.number_type() if whole else d.float_type(), d.dims())])


@form(*_ALPHA)
def with_alpha(d: FormDraw, operator: str) -> Form:
    """A function of each element with attributes."""
    d.nan = True
    alpha = d.choose([0.0, 0.25, 1.0, 2.0, -0.5])
    attributes = {
        "HardSigmoid": d.some(alpha=alpha, beta=d.choose([0.5, -1.0])),
        "Selu": d.some(alpha=alpha, gamma=d.choose([0.5, 2.0])),
        "Shrink": d.some(bias=d.choose([0.0, 0.5]), lambd=d.choose([0.0, 1.0])),
        "Gelu": d.some(approximate=d.choose(["tanh", "none"])),
    }.get(operator, d.some(alpha=alpha))
    if operator == "Celu" and attributes.get("alpha") == 0:
        attributes = {}
    kind = d.number_type() if operator == "Shrink" else d.float_type()
    return Form(operator, [d.array(kind, d.dims())], attributes)


@form("Not", "And", "Or", "Xor")
def logic(d: FormDraw, operator: str) -> Form:
    """Of truth values."""
    dims = d.dims()
    operands = [d.array("bool", dims), d.array("bool", d.broadcast(dims))]
    return Form(operator, operands[: 1 if operator == "Not" else 2])


@form(
    "Add",
    "Sub",
    "Mul",
    "Div",
    "Pow",
    "PRelu",
    "Mod",
    "Equal",
    "Less",
    "Greater",
    "LessOrEqual",
    "GreaterOrEqual",
    "BitwiseAnd",
    "BitwiseOr",
    "BitwiseXor",
    "BitShift",
)
def binary(d: FormDraw, operator: str) -> Form:
    """Of two tensors, either of which is broadcast."""
    d.nan = True
    bits = operator.startswith("Bit")
    unsigned = operator == "BitShift"
    kinds = [k for k in INTEGERS if k[0] == "u"] if unsigned else INTEGERS
    kind = str(d.choose(kinds)) if bits else d.number_type()
    dims = d.dims()
    left, right = d.array(kind, dims), d.array(kind, d.broadcast(dims))
    if operator in ("Div", "Mod") and np.dtype(kind).kind != "f":
        right[right == 0] = 2
    if operator == "Pow":
        # What overflows in integers is another number in each.
        d.extremes = d.extremes and np.dtype(kind).kind == "f"
        left = d.array(kind, dims, high=5)
        other = kind if d.flag() else d.number_type()
        right = d.array(other, right.shape, high=3)
    if unsigned:
        right = np.asarray(right % d.choose([8, 8, 80]), kind)
    if operator != "PRelu" and d.flag(0.3):
        left, right = right, left
        if operator in ("Div", "Mod") and np.dtype(kind).kind != "f":
            right[right == 0] = 2
    attributes = {"direction": d.choose(["LEFT", "RIGHT"])} if unsigned else {}
    if operator == "Mod":
        attributes = {"fmod": int(np.dtype(kind).kind == "f" or d.flag())}
    return Form(operator, [left, right], attributes, d.fix(1, share=0.4))


@form("BitwiseNot")
def bitwise_not(d: FormDraw, operator: str) -> Form:
    """Of integers."""
    return Form(operator, [d.array(str(d.choose(INTEGERS)), d.dims())])


@form("Sum", "Mean", "Max", "Min")
def many(d: FormDraw, operator: str) -> Form:
    """Of one to three tensors."""
    kind = d.number_type() if operator in ("Max", "Min") else d.float_type()
    dims = d.dims()
    count = d.integer(1, 3)
    return Form(
        operator, [d.array(kind, dims if i == 1 else d.broadcast(dims)) for i in range(count)]
    )


@form("Where")
def where(d: FormDraw, operator: str) -> Form:
    """A choice."""
    d.nan = True
    dims, kind = d.dims(), d.any_type()
    return Form(
        operator,
        [d.array("bool", d.broadcast(dims)), d.array(kind, dims), d.array(kind, d.broadcast(dims))],
    )


@form("Clip")
def clip(d: FormDraw, operator: str) -> Form:
    """Bounds, perhaps in the wrong order, perhaps one or none."""
    d.nan = True
    kind = d.number_type()
    bounds = [d.array(kind, ()) if d.flag(0.7) else None for _ in range(2)]
    x = d.array(kind, d.dims())
    if d.opset < 11:
        limits = d.some(min=-1.0, max=d.choose([1.5, -2.0]))
        return Form(operator, [x], limits)
    return Form(operator, [x, *bounds], {}, d.fix(1, 2, share=0.5))


@form("Cast", "CastLike")
def cast(d: FormDraw, operator: str) -> Form:
    """From any type to any."""
    d.nan = True
    x, to = d.array(d.any_type(), d.dims()), d.any_type()
    if operator == "CastLike":
        return Form(operator, [x, d.array(to, (1,))])
    return Form(operator, [x], {"to": helper.np_dtype_to_tensor_dtype(np.dtype(to))})


@form("IsInf")
def is_inf(d: FormDraw, operator: str) -> Form:
    """Of one sign or both."""
    d.nan = True
    d.extremes = True
    signs = d.some(detect_negative=d.integer(0, 1), detect_positive=d.integer(0, 1))
    return Form(operator, [d.array(d.float_type(), d.dims())], signs)


@form(*_REDUCTIONS)
def reduction(d: FormDraw, operator: str) -> Form:
    """Over some axes, all or none."""
    kind = d.number_type() if d.flag(0.4) else d.float_type()
    if operator in ("ReduceMax", "ReduceMin") and d.opset >= 20 and d.flag(0.2):
        kind = "bool"
    x = d.array(kind, d.dims())
    axes = d.axes(x.ndim, least=0)
    keep = d.some(keepdims=d.integer(0, 1))
    if d.opset >= 18 or (d.opset >= 13 and operator == "ReduceSum"):
        operands = [x] if d.flag(0.2) else [x, longs(axes)]
        return Form(
            operator,
            operands,
            keep | d.some(noop_with_empty_axes=d.integer(0, 1)),
            d.fix(1, share=0.95),
        )
    return Form(operator, [x], keep | (d.some(axes=axes) if axes else {}))


@form("ArgMax", "ArgMin")
def arg(d: FormDraw, operator: str) -> Form:
    """Where the end is; ties are frequent."""
    x = d.array(d.number_type(), d.dims(1), high=2)
    d.extremes = False
    last = d.integer(0, 1) if d.opset >= 12 else None
    return Form(
        operator, [x], d.some(axis=d.axis(x.ndim), keepdims=d.integer(0, 1), select_last_index=last)
    )


@form("Softmax", "LogSoftmax", "Hardmax")
def soft(d: FormDraw, operator: str) -> Form:
    """Along an axis, or (before opset 13) of two dimensions."""
    x = d.array(d.float_type(), d.dims(1))
    axis = d.axis(x.ndim) if d.opset >= 11 else d.integer(0, x.ndim - 1)
    # The default is axis 1 before opset 13.
    return Form(operator, [x], d.some(axis=axis) if x.ndim > 1 else {"axis": axis})


@form("TopK")
def topk(d: FormDraw, operator: str) -> Form:
    """The first few, in order or not."""
    x = d.array(d.number_type(), d.dims(1), high=40)
    axis = d.axis(x.ndim) if d.opset >= 11 else d.integer(0, x.ndim - 1)
    count = d.integer(0, x.shape[axis])
    more = d.some(largest=d.integer(0, 1), sorted=d.choose([1, 1, 0])) if d.opset >= 11 else {}
    if d.opset < 10:
        return Form(operator, [x], {"k": count, **d.some(axis=axis)}, outputs=2)
    return Form(operator, [x, longs([count])], {"axis": axis, **more}, d.fix(1), outputs=2)


@form("CumSum", "CumProd")
def cumulative(d: FormDraw, operator: str) -> Form:
    """Running sums and products."""
    kind = str(d.choose((*FLOATS, "int32", "int64")))
    x = d.array(kind, d.dims(1), high=4)
    axis = np.asarray(d.axis(x.ndim), d.choose(["int64", "int32"]))
    if d.flag(0.1):
        axis = axis.reshape(1)
    return Form(
        operator, [x, axis], d.some(exclusive=d.integer(0, 1), reverse=d.integer(0, 1)), d.fix(1)
    )


@form("DequantizeLinear", "QuantizeLinear")
def linear(d: FormDraw, operator: str) -> Form:
    """Codes: by tensor, by axis, by block."""
    x = d.array("float32", d.dims(1))
    axis = d.axis(x.ndim)
    code = str(
        d.choose(["int8", "uint8", "uint8", *(["int16", "uint16"] if d.opset >= 21 else [])])
    )
    form_, attributes = d.integer(0, 2), {}
    dims: tuple[int, ...] = ()
    if form_ and d.opset >= 13:
        dims, attributes = (x.shape[axis],), {"axis": axis}
    if form_ == 2 and d.opset >= 21 and x.size:
        block = d.integer(1, x.shape[axis])
        attributes |= {"block_size": block}
        grown = list(x.shape)
        grown[axis] = -(-grown[axis] // block)
        dims = tuple(grown)
    scale = (d.rng.integers(1, 9, dims) / 4).astype(np.float32)
    zero = d.array(code, dims) if d.flag(0.7) else None
    source = x if operator == "QuantizeLinear" else d.array(code, x.shape)
    return Form(
        operator, [source, scale, zero][: 3 if zero is not None else 2], attributes, d.fix(1, 2)
    )


@form("DynamicQuantizeLinear")
def dynamic(d: FormDraw, operator: str) -> Form:
    """Codes that fit what is there."""
    d.extremes = False
    return Form(operator, [d.array("float32", d.dims())], outputs=3)
