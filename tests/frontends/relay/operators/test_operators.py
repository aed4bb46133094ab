"""Every operator of the table, against NumPy."""

from __future__ import annotations

import re

import numpy as np
import pytest
from scipy import special

from tests.frontends.relay import numpy_reference as reference
from tests.frontends.relay.cases import Case, applied, check, normal, whole
from tests.frontends.relay.scatters import scatters
from tvm_hetero.frontends.relay.operator_table import FAMILIES, TABLE

X = normal(2, 3, 4)
P = np.abs(X) + 0.5  # positive
U = np.tanh(X)  # within -1 and 1
M, N = whole(2, 3, 4, low=-9, high=9), whole(2, 3, 4, low=1, high=5, seed=1)
B, C = X > 0, normal(2, 3, 4, seed=1) > 0
IMAGE = normal(2, 4, 9, 8)
HALVES = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.49999997, -0.2], "float32")


def away(x):
    return (np.sign(x) * np.floor(np.abs(x).astype("float64") + 0.5)).astype("float32")


def elementwise() -> list[Case]:
    plain = {
        "exp": np.exp, "tanh": np.tanh, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc,
        "sign": np.sign, "sin": np.sin, "cos": np.cos, "tan": np.tan, "sinh": np.sinh,
        "cosh": np.cosh, "atan": np.arctan, "asinh": np.arcsinh, "negative": np.negative,
        "abs": np.abs, "fast_exp": np.exp, "fast_tanh": np.tanh, "isnan": np.isnan,
        "isfinite": np.isfinite, "isinf": np.isinf, "sigmoid": special.expit, "erf": special.erf,
        "fast_erf": special.erf, "nn.relu": lambda x: np.maximum(x, 0),
    }  # fmt: skip
    positive = {
        "log": np.log, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "log2": np.log2,
        "log10": np.log10,
    }  # fmt: skip
    narrow = {"asin": np.arcsin, "acos": np.arccos, "atanh": np.arctanh}
    two = {
        "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide,
        "maximum": np.maximum, "minimum": np.minimum, "equal": np.equal, "less": np.less,
        "not_equal": np.not_equal, "less_equal": np.less_equal, "greater": np.greater,
        "greater_equal": np.greater_equal,
    }  # fmt: skip
    whole_two = {
        "bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or,
        "bitwise_xor": np.bitwise_xor, "left_shift": np.left_shift,
        "right_shift": np.right_shift, "floor_divide": np.floor_divide, "floor_mod": np.mod,
        "mod": np.fmod, "divide": lambda a, b: np.trunc(a / b).astype("int32"),
    }  # fmt: skip
    truth = {
        "logical_and": np.logical_and, "logical_or": np.logical_or,
        "logical_xor": np.logical_xor,
    }  # fmt: skip
    return [
        *(applied(name, make, X) for name, make in plain.items()),
        *(applied(name, make, P) for name, make in positive.items()),
        *(applied(name, make, U * 0.9) for name, make in narrow.items()),
        applied("acosh", np.arccosh, P + 1),
        *(applied(name, make, X, normal(3, 1, seed=2)) for name, make in two.items()),
        *(applied(name, make, M, N) for name, make in whole_two.items()),
        *(applied(name, make, B, C) for name, make in truth.items()),
        applied("mod", np.fmod, X, P),
        applied("floor_mod", np.mod, X, P),
        applied("power", np.power, P, X),
        applied("logical_not", np.logical_not, B),
        applied("bitwise_not", np.bitwise_not, M),
        applied("round", away, HALVES),
        applied("clip", lambda x: x.clip(-0.5, 0.25), X, attributes="a_min=-0.5f, a_max=0.25f"),
        applied("clip", lambda x: x.clip(-3, 4), M, attributes="a_min=-3f, a_max=4f"),
        applied("clip", lambda x: np.maximum(x, 0), X, attributes="a_min=0f, a_max=inff"),
        applied("clip", lambda x: np.minimum(x, 0), X, attributes="a_min=-inff, a_max=0f"),
        applied("cast", lambda x: x.astype("int32"), X * 9, attributes='dtype="int32"'),
        applied("cast", lambda x: x.astype("bool"), M, attributes='dtype="bool"'),
        applied("cast_like", lambda x, y: x.astype("float32"), M, X),
        applied("where", np.where, B, X, normal(1, 4, seed=3)),
        applied("where", np.where, M, X, P),
        applied("nn.leaky_relu", lambda x: np.where(x > 0, x, x * np.float32(0.25)), X),
        applied("nn.leaky_relu", lambda x: np.where(x > 0, x, x * np.float32(0.1)), X,
                attributes="alpha=0.1f"),
        applied("nn.prelu", lambda x, a: np.where(x > 0, x, x * a[:, None]), X, normal(3)),
        applied("nn.prelu", lambda x, a: np.where(x > 0, x, x * a), X, normal(4),
                attributes="axis=-1"),
        applied("nn.bias_add", lambda x, b: x + b[:, None], X, normal(3)),
        applied("nn.bias_add", lambda x, b: x + b, X, normal(4), attributes="axis=-1"),
        Case("nn.dropout(%x, rate=0.3f).0", [X], X),
        Case("add(multiply(%x, 2f), 1.5f /* ty=float32 */)", [X], X * 2 + np.float32(1.5)),
    ]  # fmt: skip


def first(x: np.ndarray, layout: str, wanted: str) -> np.ndarray:
    return np.ascontiguousarray(x.transpose([layout.index(d) for d in wanted]))


def convolution() -> list[Case]:
    w, deep = normal(6, 4, 3, 3), normal(4, 2, 3, 3, seed=1)
    grouped = normal(6, 2, 3, 3, seed=2)
    line, line_w = normal(2, 4, 9), normal(6, 4, 3)
    block, block_w = normal(1, 2, 5, 6, 4), normal(3, 2, 3, 3, 3)
    up, up_w, up_grouped = normal(1, 4, 5, 4), normal(4, 6, 3, 3), normal(4, 3, 3, 3)
    conv, back = reference.conv, reference.conv_transpose
    depthwise = conv(IMAGE, deep.reshape(8, 1, 3, 3), [1, 1], [1, 1, 1, 1], groups=4)
    nhwc, hwio = first(IMAGE, "NCHW", "NHWC"), first(w, "OIHW", "HWIO")
    plain = conv(IMAGE, w, [2, 1], [1, 0, 0, 1])
    common = "strides=[2, 1], padding=[1, 0, 0, 1], channels=6, kernel_size=[3, 3]"
    return [
        Case(f"nn.conv2d(%x, %y, {common})", [IMAGE, w], plain, [1]),
        Case(f"nn.conv2d(%x, %y, {common})", [IMAGE, w], plain),
        Case(f'nn.conv2d(%x, %y, {common}, data_layout="NHWC", kernel_layout="HWIO")',
             [nhwc, hwio], first(plain, "NCHW", "NHWC"), [1]),
        Case(f'nn.conv2d(%x, %y, {common}, data_layout="NHWC", kernel_layout="HWIO", '
             'out_layout="NCHW")', [nhwc, hwio], plain, [1]),
        Case("nn.conv2d(%x, %y, padding=[1], dilation=[2, 2])", [IMAGE, w],
             conv(IMAGE, w, [1, 1], [1, 1, 1, 1], [2, 2]), [1]),
        Case("nn.conv2d(%x, %y, padding=[1, 2], groups=2)", [IMAGE, grouped],
             conv(IMAGE, grouped, [1, 1], [1, 2, 1, 2], groups=2), [1]),
        Case("nn.conv2d(%x, %y, padding=[1, 1], groups=4, channels=8)", [IMAGE, deep],
             depthwise, [1]),
        Case('nn.conv2d(%x, %y, padding=[1, 1], groups=4, data_layout="NHWC", '
             'kernel_layout="HWOI")', [nhwc, first(deep, "OIHW", "HWOI")],
             first(depthwise, "NCHW", "NHWC"), [1]),
        Case("nn.conv1d(%x, %y, strides=[2], padding=[1, 2])", [line, line_w],
             conv(line, line_w, [2], [1, 2]), [1]),
        Case('nn.conv1d(%x, %y, data_layout="NWC", kernel_layout="WIO")',
             [first(line, "NCW", "NWC"), first(line_w, "OIW", "WIO")],
             first(conv(line, line_w, [1], [0, 0]), "NCW", "NWC"), [1]),
        Case("nn.conv3d(%x, %y, strides=[1, 2, 1], padding=[1, 1, 0, 1, 1, 0])",
             [block, block_w], conv(block, block_w, [1, 2, 1], [1, 1, 0, 1, 1, 0]), [1]),
        Case("nn.conv2d_transpose(%x, %y, channels=6, kernel_size=[3, 3], strides=[2, 2], "
             "padding=[1, 1, 1, 1], output_padding=[1, 0])", [up, up_w],
             back(up, up_w, [2, 2], [1, 1, 1, 1], [1, 0]), [1]),
        Case("nn.conv2d_transpose(%x, %y, groups=2, channels=6, strides=[2, 2])",
             [up, up_grouped], back(up, up_grouped, [2, 2], [0] * 4, [0, 0], groups=2), [1]),
        Case('nn.conv2d_transpose(%x, %y, channels=6, kernel_layout="OIHW")',
             [up, first(up_w, "IOHW", "OIHW")], back(up, up_w, [1, 1], [0] * 4, [0, 0]), [1]),
        Case("nn.conv1d_transpose(%x, %y, channels=6, strides=[2], padding=[1, 1])",
             [line, normal(4, 6, 3)], back(line, normal(4, 6, 3), [2], [1, 1], [0]), [1]),
        Case("nn.conv3d_transpose(%x, %y, channels=3, strides=[2, 1, 1])",
             [block, normal(2, 3, 3, 3, 3)],
             back(block, normal(2, 3, 3, 3, 3), [2, 1, 1], [0] * 6, [0] * 3), [1]),
    ]  # fmt: skip


def pooling() -> list[Case]:
    pool = reference.pool
    line, block = normal(2, 3, 9), normal(1, 2, 5, 6, 4)
    nhwc = first(IMAGE, "NCHW", "NHWC")
    window = "pool_size=[3, 2], strides=[2, 2], padding=[1, 0, 0, 1]"
    how = ([3, 2], [2, 2], [1, 0, 0, 1])
    even = normal(1, 2, 6, 8)
    blocks = even.reshape(1, 2, 3, 2, 4, 2)
    cases = [
        Case(f"nn.max_pool2d(%x, {window})", [IMAGE], pool(IMAGE, "max", *how)),
        Case(f"nn.avg_pool2d(%x, {window})", [IMAGE], pool(IMAGE, "avg", *how)),
        Case(f"nn.avg_pool2d(%x, {window}, count_include_pad=True)", [IMAGE],
             pool(IMAGE, "avg", *how, count_padding=True)),
        Case("nn.max_pool2d(%x, pool_size=[2, 2], strides=[2, 2], ceil_mode=True)", [IMAGE],
             pool(IMAGE, "max", [2, 2], [2, 2], [0] * 4, ceil=True)),
        Case("nn.avg_pool2d(%x, pool_size=[2, 2], strides=[2, 2], ceil_mode=True)", [IMAGE],
             pool(IMAGE, "avg", [2, 2], [2, 2], [0] * 4, ceil=True)),
        Case(f'nn.max_pool2d(%x, {window}, layout="NHWC")', [nhwc],
             first(pool(IMAGE, "max", *how), "NCHW", "NHWC")),
        Case("nn.max_pool1d(%x, pool_size=[3], strides=[2], padding=[1, 1])", [line],
             pool(line, "max", [3], [2], [1, 1])),
        Case("nn.avg_pool1d(%x, pool_size=[3], strides=[2], padding=[1, 1])", [line],
             pool(line, "avg", [3], [2], [1, 1])),
        Case("nn.max_pool3d(%x, pool_size=[2, 2, 2], strides=[2, 2, 2])", [block],
             pool(block, "max", [2] * 3, [2] * 3, [0] * 6)),
        Case("nn.avg_pool3d(%x, pool_size=[2, 2, 2], strides=[1, 2, 2])", [block],
             pool(block, "avg", [2] * 3, [1, 2, 2], [0] * 6)),
        Case('nn.global_avg_pool2d(%x, layout="NHWC")', [nhwc], nhwc.mean((1, 2), keepdims=True)),
        Case("nn.adaptive_avg_pool2d(%x, output_size=[3, 4])", [even], blocks.mean((3, 5))),
        Case("nn.adaptive_max_pool2d(%x, output_size=[3, 4])", [even], blocks.max((3, 5))),
        Case("nn.adaptive_avg_pool2d(%x, output_size=[1])", [even],
             even.mean((2, 3), keepdims=True)),
        Case("nn.adaptive_max_pool1d(%x, output_size=[2])", [line],
             np.stack([line[..., :5].max(-1), line[..., 4:].max(-1)], -1)),
        Case("nn.adaptive_avg_pool1d(%x, output_size=[3])", [line],
             line.reshape(2, 3, 3, 3).mean(-1)),
        Case("nn.adaptive_avg_pool3d(%x)", [block], block),
        Case("nn.adaptive_max_pool3d(%x, output_size=[1])", [block],
             block.max((2, 3, 4), keepdims=True)),
    ]  # fmt: skip
    for dims, x in ((1, line), (2, IMAGE), (3, block)):
        axes = tuple(range(2, 2 + dims))
        cases += [
            Case(f"nn.global_avg_pool{dims}d(%x)", [x], x.mean(axes, keepdims=True)),
            Case(f"nn.global_max_pool{dims}d(%x)", [x], x.max(axes, keepdims=True)),
        ]
    return cases


def normalization() -> list[Case]:
    def statistics(n: int) -> list[np.ndarray]:
        return [normal(n, seed=1), normal(n, seed=2), normal(n, seed=3), np.abs(normal(n)) + 0.5]

    four, eight = statistics(4), statistics(8)
    norm, even = reference.batch_norm, reference.standardized
    g, b = four[:2]
    return [
        Case("nn.batch_norm(%x, %y, %z, %u, %v, epsilon=0.01f)", [IMAGE, *four],
             [norm(IMAGE, *four, 1, 0.01), four[2], four[3]], [1, 2, 3, 4]),
        Case("nn.batch_norm(%x, %y, %z, %u, %v).0", [IMAGE, *four], norm(IMAGE, *four, 1, 1e-5)),
        Case("nn.batch_norm(%x, %y, %z, %u, %v, axis=-1).0", [IMAGE, *eight],
             norm(IMAGE, *eight, 3, 1e-5), [1, 2, 3, 4]),
        Case("nn.batch_norm(%x, %y, %z, %u, %v, scale=False).0", [IMAGE, *four],
             norm(IMAGE, g * 0 + 1, *four[1:], 1, 1e-5), [1, 2, 3, 4]),
        Case("nn.batch_norm(%x, %y, %z, %u, %v, center=False).0", [IMAGE, *four],
             norm(IMAGE, g, b * 0, *four[2:], 1, 1e-5)),
        Case("nn.layer_norm(%x, %y, %z, epsilon=0.001f)", [IMAGE, *eight[:2]],
             even(IMAGE, (3,), 1e-3) * eight[0] + eight[1], [1, 2]),
        Case("nn.layer_norm(%x, %y, %z, axis=1, scale=False)", [IMAGE, g, b],
             even(IMAGE, (1,), 1e-5) + b[:, None, None], [1, 2]),
        Case("nn.instance_norm(%x, %y, %z)", [IMAGE, g, b],
             even(IMAGE, (2, 3), 1e-5) * g[:, None, None] + b[:, None, None], [1, 2]),
        Case("nn.instance_norm(%x, %y, %z, axis=3, center=False)", [IMAGE, *eight[:2]],
             even(IMAGE, (1, 2), 1e-5) * eight[0], [1, 2]),
        Case("nn.group_norm(%x, %y, %z, num_groups=2)", [IMAGE, g, b],
             even(IMAGE.reshape(2, 2, 2, 9, 8), (2, 3, 4), 1e-5).reshape(IMAGE.shape)
             * g[:, None, None] + b[:, None, None], [1, 2]),
        Case("nn.l2_normalize(%x, eps=1e-3f, axis=[1])", [IMAGE],
             IMAGE / np.sqrt(np.maximum((IMAGE**2).sum(1, keepdims=True), 1e-3))),
        Case("nn.lrn(%x, size=3, axis=1, bias=1f, alpha=0.2f, beta=0.75f)", [IMAGE],
             reference.lrn(IMAGE, 3, 1, 0.2, 0.75, 1.0)),
        Case("nn.lrn(%x, axis=3, bias=2f, alpha=0.5f, beta=0.6f)", [IMAGE],
             reference.lrn(IMAGE, 5, 3, 0.5, 0.6, 2.0)),
        Case("nn.softmax(%x)", [X], reference.softmax(X, -1)),
        Case("nn.softmax(%x, axis=1)", [X], reference.softmax(X, 1)),
        Case("nn.fast_softmax(%x, axis=0)", [X], reference.softmax(X, 0)),
        Case("nn.log_softmax(%x, axis=1)", [X], np.log(reference.softmax(X, 1))),
    ]  # fmt: skip


def products() -> list[Case]:
    a, b, w = normal(2, 3, 4), normal(2, 5, 4), normal(6, 4)
    m, n = normal(4, 3), normal(5, 4)
    return [
        Case("nn.dense(%x, %y, units=6)", [normal(3, 4), w], normal(3, 4) @ w.T, [1]),
        Case("nn.dense(%x, %y, units=None)", [a, w], a @ w.T),
        Case("nn.batch_matmul(%x, %y)", [a, b], a @ b.transpose(0, 2, 1)),
        Case("nn.batch_matmul(%x, %y, transpose_a=True, transpose_b=False)",
             [a.transpose(0, 2, 1).copy(), b.transpose(0, 2, 1).copy()],
             a @ b.transpose(0, 2, 1)),
        Case("nn.matmul(%x, %y, units=5, transpose_a=True, transpose_b=True)", [m, n],
             m.T @ n.T, [1]),
    ]  # fmt: skip


def reductions() -> list[Case]:
    small = {"sum": np.sum, "mean": np.mean, "max": np.max, "min": np.min, "prod": np.prod}
    cases = []
    for name, make in small.items():
        cases += [
            Case(f"{name}(%x)", [X], np.asarray(make(X), "float32")),
            Case(f"{name}(%x, axis=[-1, 0], keepdims=True)", [X],
                 make(X, axis=(0, 2), keepdims=True)),
            Case(f"{name}(%x, axis=[1], exclude=True)", [X], make(X, axis=(0, 2))),
        ]  # fmt: skip
    turned = X.transpose(1, 0, 2).reshape(3, 8)
    ties = np.array([[1, 3, 3, 0], [2, 2, 1, 2]], "float32")
    mean = X.mean(1, keepdims=True)
    return [
        *cases,
        Case("sum(%x, axis=[])", [X], X.sum()),  # as in TVM
        Case("max(%x, axis=[], keepdims=True, exclude=True)", [X], X.max(keepdims=True)),
        Case("all(%x, axis=[1])", [B], B.all(1)),
        Case("any(%x, axis=[0, 1], keepdims=True)", [B], B.any((0, 1), keepdims=True)),
        Case("argmax(%x, axis=[1])", [X], X.argmax(1).astype("int32")),
        Case("argmin(%x, axis=[-1], keepdims=True)", [X],
             X.argmin(-1).astype("int32")[..., None]),
        Case("argmax(%x)", [X], np.asarray(X.argmax(), "int32")),
        Case("argmax(%x, axis=[0, 2])", [X], turned.argmax(1).astype("int32")),
        Case("argmax(%x, axis=[1])", [ties], np.array([1, 0], "int32")),
        Case("argmax(%x, axis=[1], select_last_index=True)", [ties], np.array([2, 3], "int32")),
        Case("variance(%x, %y, axis=[1], keepdims=True)", [X, mean], X.var(1, keepdims=True)),
        Case("variance(%x, %y, axis=[1], unbiased=True)", [X, mean], X.var(1, ddof=1)),
    ]  # fmt: skip


def transforms() -> list[Case]:
    y = normal(2, 5, 4)
    reshapes = {
        "-1": (24,), "0, -1": (2, 12), "-2": (2, 3, 4), "-3, 0": (6, 4), "0, -3": (2, 12),
        "0, -4, -1, 1, 0": (2, 3, 1, 4), "4, 0, 2": (4, 3, 2), "1, -2": None,
    }  # fmt: skip
    depth = normal(1, 8, 2, 3)
    dcr = depth.reshape(1, 2, 2, 2, 2, 3).transpose(0, 3, 4, 1, 5, 2).reshape(1, 2, 4, 6)
    crd = depth.reshape(1, 2, 2, 2, 2, 3).transpose(0, 1, 4, 2, 5, 3).reshape(1, 2, 4, 6)
    return [
        *(
            Case(f"reshape(%x, newshape=[{codes}])", [X], X.reshape(shape))
            for codes, shape in reshapes.items()
            if shape
        ),
        Case("reshape(%x, newshape=[0, -1], reverse=True)", [normal(3, 4, 1)],
             normal(3, 4, 1).reshape(4, 3)),
        Case("contrib_reverse_reshape(%x, newshape=[-1, 0])", [X], X.reshape(6, 4)),
        Case("reshape_like(%x, %y)", [X, normal(4, 6)], X.reshape(4, 6)),
        Case("nn.batch_flatten(%x)", [X], X.reshape(2, 12)),
        Case("squeeze(%x)", [normal(1, 3, 1)], normal(1, 3, 1).reshape(3)),
        Case("squeeze(%x, axis=[-1])", [normal(1, 3, 1)], normal(1, 3, 1).reshape(1, 3)),
        Case("expand_dims(%x, axis=1, num_newaxis=2)", [X], X.reshape(2, 1, 1, 3, 4)),
        Case("expand_dims(%x, axis=-1)", [X], X[..., None]),
        Case("transpose(%x)", [X], X.T),
        Case("transpose(%x, axes=[1, -1, 0])", [X], X.transpose(1, 2, 0)),
        Case('layout_transform(%x, src_layout="NCHW", dst_layout="NHWC")', [IMAGE],
             IMAGE.transpose(0, 2, 3, 1)),
        Case("concatenate((%x, %y), axis=1)", [X, y], np.concatenate([X, y], 1)),
        Case("concatenate((%x, %y), axis=-2)", [X, y], np.concatenate([X, y], 1)),
        Case("stack((%x, %y), axis=1)", [X, P], np.stack([X, P], 1)),
        Case("stack((%x, %y), axis=-1)", [X, P], np.stack([X, P], -1)),
        Case("split(%x, indices_or_sections=2, axis=2)", [X], np.split(X, 2, 2)),
        Case("split(%x, indices_or_sections=[1, 3], axis=-1)", [X], np.split(X, [1, 3], 2)),
        Case("strided_slice(%x, begin=[0, 1], end=[2, 3])", [X], X[0:2, 1:3]),
        Case("strided_slice(%x, begin=[1, -2, 0], end=[2, 9, 4], strides=[1, 1, 2])", [X],
             X[1:2, -2:, 0:4:2]),
        Case("strided_slice(%x, begin=[3], end=[-5], strides=[-1], axes=[2])", [X],
             X[:, :, ::-1]),
        Case('strided_slice(%x, begin=[0, 1, 1], end=[2, -1, 2], slice_mode="size")', [X],
             X[0:2, 1:, 1:3]),
        Case("slice_like(%x, %y, axes=[1])", [y, X], y[:, :3]),
        Case("tile(%x, reps=[2, 1, 3])", [X], np.tile(X, [2, 1, 3])),
        Case("tile(%x, reps=[2, 1, 1, 2])", [X], np.tile(X, [2, 1, 1, 2])),
        Case("repeat(%x, repeats=2, axis=1)", [X], np.repeat(X, 2, 1)),
        Case("reverse(%x, axis=1)", [X], X[:, ::-1]),
        Case("nn.pad(%x, 1.5f, pad_width=[[0, 0], [1, 2], [0, 1]])", [X],
             np.pad(X, [(0, 0), (1, 2), (0, 1)], constant_values=1.5)),
        Case("nn.pad(%x, pad_value=0.5f, pad_width=[[0, 0], [1, 0], [0, 1]])", [X],
             np.pad(X, [(0, 0), (1, 0), (0, 1)], constant_values=0.5)),
        Case('nn.pad(%x, 0f, pad_width=[[0, 0], [2, 2], [0, 1]], pad_mode="edge")', [X],
             np.pad(X, [(0, 0), (2, 2), (0, 1)], mode="edge")),
        Case('nn.pad(%x, 0f, pad_width=[[0, 0], [2, 2], [0, 1]], pad_mode="reflect")', [X],
             np.pad(X, [(0, 0), (2, 2), (0, 1)], mode="reflect")),
        Case('nn.mirror_pad(%x, mode="SYMMETRIC", pad_width=[[0, 0], [2, 1], [0, 1]])', [X],
             np.pad(X, [(0, 0), (2, 1), (0, 1)], mode="symmetric")),
        Case("broadcast_to(%x, shape=[2, 3, 4])", [normal(3, 1)],
             np.broadcast_to(normal(3, 1), (2, 3, 4))),
        Case("broadcast_to_like(%x, %y)", [normal(3, 1), X],
             np.broadcast_to(normal(3, 1), (2, 3, 4))),
        Case("nn.depth_to_space(%x, block_size=2)", [depth], dcr),
        Case('nn.depth_to_space(%x, block_size=2, mode="CRD")', [depth], crd),
        Case("nn.space_to_depth(%x, block_size=2)", [dcr], depth),
        Case("dyn.reshape(%x, %y, newshape=[])", [X, np.array([4, -1], "int64")],
             X.reshape(4, 6), [1]),
        Case("dyn.strided_slice(%x, %y, %z, %u)",
             [X, *(np.array(v, "int64") for v in ([0, 1, 0], [2, 3, 4], [1, 1, 2]))],
             X[0:2, 1:3, 0:4:2], [1, 2, 3]),
        Case("dyn.broadcast_to(%x, %y, shape=None)", [normal(3, 1), np.array([2, 3, 4], "int64")],
             np.broadcast_to(normal(3, 1), (2, 3, 4)), [1]),
    ]  # fmt: skip


def selection() -> list[Case]:
    places = np.array([[0, 2], [5, -1]], "int32")
    inside = whole(2, 3, 2, high=4)
    pairs = np.array([[0, 1, 1], [2, 0, 1]], "int32")
    order = np.argsort(-X, axis=1, kind="stable").astype("int32")
    ties = np.array([[1, 3, 3, 0], [2, 2, 1, 2]], "float32")
    on, off = np.float32(2).reshape(()), np.float32(-1).reshape(())
    hot = np.where(np.arange(5) == places.clip(0)[..., None], on, off)
    exclusive = np.concatenate([X[:, :1] * 0, X.cumsum(1)[:, :-1]], 1)
    lengths = np.array([1, 2, 3], "int32")
    return [
        applied("take", lambda x, i: x.take(i, 1, mode="clip"), X, places, attributes="axis=1"),
        applied("take", lambda x, i: x.take(i, 1, mode="wrap"), X, places,
                attributes='axis=1, mode="wrap"'),
        applied("take", lambda x, i: x.take(i.clip(0, 2), 1), X, places.clip(0, 2),
                attributes='axis=1, mode="fast"'),
        applied("take", lambda x, i: x.reshape(-1).take(i, mode="clip"), X, places),
        Case("take(%x, %y, axis=1, batch_dims=1)", [X, np.array([[0, 2], [1, 1]], "int32")],
             np.stack([X[0][[0, 2]], X[1][[1, 1]]])),
        applied("gather", lambda x, i: np.take_along_axis(x, i, 2), X, inside,
                attributes="axis=2"),
        Case("gather_nd(%x, %y)", [X, pairs], X[pairs[0], pairs[1]]),
        Case("gather_nd(%x, %y, batch_dims=1)", [X, np.array([[1, 2]], "int32")],
             np.stack([X[0, 1], X[1, 2]])),
        Case("one_hot(%x, %y, %z, depth=5, axis=-1, dtype=\"float32\")",
             [places.clip(0), on, off], hot),
        Case("one_hot(%x, 1, 0, depth=5, axis=1, dtype=\"int32\")", [places.clip(0)],
             np.moveaxis(hot > 0, -1, 1).astype("int32")),
        Case("topk(%x, k=2, axis=1)", [X],
             [np.take_along_axis(X, order, 1)[:, :2], order[:, :2]]),
        Case('topk(%x, k=3, axis=-1, is_ascend=True, ret_type="indices", dtype="int64")', [ties],
             np.argsort(ties, -1, kind="stable")[:, :3]),
        Case('topk(%x, k=0, axis=-1, ret_type="values")', [X], -np.sort(-X, -1)),
        Case("dyn.topk(%x, %y, axis=1)", [X, np.array(2, "int64")],
             [np.take_along_axis(X, order, 1)[:, :2], order[:, :2]], [1]),
        Case('argsort(%x, axis=1, is_ascend=False, dtype="int32")', [X], order),
        Case("sort(%x, axis=1)", [X], np.sort(X, 1)),
        Case("cumsum(%x, axis=1)", [X], X.cumsum(1)),
        Case("cumsum(%x, axis=1, exclusive=True)", [X], exclusive),
        Case("cumsum(%x)", [X], X.reshape(-1).cumsum()),
        Case("trilu(%x, %y)", [X, np.array(1, "int32")], np.triu(X, 1), [1]),
        Case("trilu(%x, %y, upper=False)", [X, np.array(0, "int32")], np.tril(X), [1]),
        Case("sequence_mask(%x, %y, mask_value=-1f)", [normal(4, 3, 2), lengths],
             np.where(np.arange(4)[:, None, None] < lengths[:, None], normal(4, 3, 2), -1)
             .astype("float32")),
        Case("reverse_sequence(%x, %y, seq_axis=1, batch_axis=0)",
             [X, np.array([2, 3], "int32")],
             np.stack([X[0][[1, 0, 2]], X[1][::-1]])),
        Case("reverse_sequence(%x, %y, seq_axis=0, batch_axis=2)",
             [X, np.array([9, 1, 0, 2], "int64")],
             np.stack([X[::-1, :, 0], X[:, :, 1], X[:, :, 2], X[::-1, :, 3]], -1)),
    ]  # fmt: skip


def creation() -> list[Case]:
    grid = np.meshgrid(np.arange(3, dtype="float32"), normal(4), indexing="ij")
    crossed = np.meshgrid(np.arange(3, dtype="float32"), normal(4), indexing="xy")
    return [
        Case('add(zeros(shape=[2, 1, 4], dtype="float32"), %x)', [X], X),
        Case('add(ones(shape=[4], dtype="float32"), %x)', [X], X + 1),
        Case('add(full(3f, shape=[3, 4], dtype="float32"), %x)', [X], X + 3),
        Case('full(%x, shape=[2, 3], dtype="float32")', [normal(1).reshape(())],
             np.full((2, 3), normal(1)[0])),
        Case("add(zeros_like(%x), %y)", [X, P], P),
        Case("add(ones_like(%x), %x)", [X], X + 1),
        Case("full_like(%x, 2.5f)", [X], np.full_like(X, 2.5)),
        Case('add(arange(0f, 4f, 1f, start=0f, stop=4f, step=1f, dtype="float32"), %x)', [X],
             X + np.arange(4, dtype="float32")),
        Case('add(arange(3, -1, -1, dtype="int32"), %x)', [M],
             M + np.arange(3, -1, -1, dtype="int32")),
        Case('add(shape_of(%x, dtype="int32"), %y)', [X, np.zeros(3, "int32")],
             np.array([2, 3, 4], "int32")),
        Case('add(ndarray_size(%x, dtype="int32"), %y)', [X, np.zeros(1, "int32")],
             np.array([24], "int32")),
        Case('meshgrid((%x, %y), indexing="ij")', [np.arange(3, dtype="float32"), normal(4)],
             list(grid)),
        Case('meshgrid((%x, %y), indexing="xy")', [np.arange(3, dtype="float32"), normal(4)],
             list(crossed)),
        Case('add(dyn.zeros(%y, dtype="float32"), %x)', [X, np.array([3, 4], "int64")], X, [1]),
        Case('add(dyn.ones(%y, dtype="float32"), %x)', [X, np.array([3, 4], "int64")], X + 1,
             [1]),
        Case('add(dyn.full(2f, %y, dtype="float32"), %x)', [X, np.array([3, 4], "int64")], X + 2,
             [1]),
    ]  # fmt: skip


def bilinear(x: np.ndarray, size: tuple[int, int], places) -> np.ndarray:
    """Linear interpolation along both axes; `places` maps output to input coordinates."""
    for axis, count in zip((2, 3), size, strict=True):
        extent = x.shape[axis]
        at = np.clip(places(np.arange(count), extent, count), 0, extent - 1)
        low = np.floor(at).astype(int)
        high = np.minimum(low + 1, extent - 1)
        shape = [1] * 4
        shape[axis] = count
        part = (at - low).astype("float32").reshape(shape)
        x = x.take(low, axis) * (1 - part) + x.take(high, axis) * part
    return x


def image() -> list[Case]:
    x = normal(1, 2, 4, 5)
    block = normal(1, 2, 2, 3, 2)
    nearest = x.repeat(2, 2).repeat(3, 3)
    return [
        Case("nn.upsampling(%x, scale_h=2f, scale_w=3f)", [x], nearest),
        Case('nn.upsampling(%x, scale_h=2f, scale_w=3f, layout="NHWC")',
             [first(x, "NCHW", "NHWC")], first(nearest, "NCHW", "NHWC")),
        Case('nn.upsampling(%x, scale_h=2f, scale_w=2f, method="bilinear")', [x],
             bilinear(x, (8, 10), lambda i, n, m: i * n / m)),
        Case('nn.upsampling(%x, scale_h=2f, scale_w=2f, method="bilinear", align_corners=True)',
             [x], bilinear(x, (8, 10), lambda i, n, m: i * (n - 1) / (m - 1))),
        Case('nn.upsampling3d(%x, scale_d=2f, scale_h=2f, scale_w=2f, '
             'coordinate_transformation_mode="asymmetric")', [block],
             block.repeat(2, 2).repeat(2, 3).repeat(2, 4)),
        Case("image.resize2d(%x, size=[6, 9])", [x],
             bilinear(x, (6, 9), lambda i, n, m: (i + 0.5) * n / m - 0.5)),
        Case('image.resize2d(%x, size=[8, 10], method="nearest_neighbor", rounding_method="floor",'
             ' coordinate_transformation_mode="asymmetric")', [x], x.repeat(2, 2).repeat(2, 3)),
        Case("image.resize(%x, size=[6, 9])", [x],
             bilinear(x, (6, 9), lambda i, n, m: (i + 0.5) * n / m - 0.5)),
        Case("image.resize(%x, size=[7, 9], align_corners=True)", [x],
             bilinear(x, (7, 9), lambda i, n, m: i * (n - 1) / (m - 1))),
        Case('image.resize(%x, size=[8, 10], layout="NHWC", method="nearest_neighbor", '
             'align_corners=False)', [first(x, "NCHW", "NHWC")],
             first(x.repeat(2, 2).repeat(2, 3), "NCHW", "NHWC")),
    ]  # fmt: skip


BUILDERS = {
    "elementwise": elementwise, "convolution": convolution, "pooling": pooling,
    "normalization": normalization, "products": products, "reductions": reductions,
    "transforms": transforms, "selection": selection, "scatter": scatters,
    "creation": creation, "image": image,
}  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_computes_what_numpy_does(family: str) -> None:
    check(BUILDERS[family]())


def test_every_operator_has_a_case() -> None:
    texts = " ".join(case.text for build in BUILDERS.values() for case in build())
    called = set(re.findall(r"([A-Za-z_][\w.]*)\(", texts))
    assert set(TABLE) <= called
