"""Forms of operators that slide windows, normalize, or resize images."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.fuzz.operator_forms import Form, FormDraw, form, longs


def _windows(d: FormDraw, dims: tuple[int, ...], dilated: bool = True) -> dict[str, Any]:
    """Attributes of a window that fits into these dimensions."""
    window = [d.integer(1, min(3, max(n, 1))) for n in dims]
    found: dict[str, Any] = {"kernel_shape": window}
    found |= d.some(strides=[d.integer(1, 3) for _ in dims])
    if dilated:
        found |= d.some(dilations=[d.choose([1, 1, 2]) for _ in dims])
    if d.flag(0.3):
        found["auto_pad"] = d.choose(["SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET"])
    elif d.flag():
        found["pads"] = [d.integer(0, max(k - 1, 0)) for k in (*window, *window)]
    return found


def _image(d: FormDraw, kind: str, channels: int | None = None) -> Any:
    space = tuple(d.integer(1, 7) for _ in range(d.choose([1, 2, 2, 2, 3])))
    return d.array(kind, (d.integer(0 if d.zeros else 1, 2), channels or d.integer(1, 4), *space))


@form("Conv", "ConvTranspose")
def convolution(d: FormDraw, operator: str) -> Form:
    """Groups, windows, paddings, biases."""
    d.extremes = False
    kind, group = d.float_type(), d.choose([1, 1, 2, 3])
    inner, outer = d.integer(1, 3), d.integer(1, 3)
    x = _image(d, kind, inner * group)
    attributes = _windows(d, x.shape[2:])
    first = (outer * group, inner) if operator == "Conv" else (inner * group, outer)
    operands = [x, d.array(kind, (*first, *attributes["kernel_shape"]))]
    if d.flag():
        operands.append(d.array(kind, (outer * group,)))
    if operator == "ConvTranspose":
        strides = attributes.get("strides", [1] * (x.ndim - 2))
        if d.flag(0.3):
            attributes["output_padding"] = [d.integer(0, s - 1) for s in strides]
        if d.flag(0.15):
            attributes["output_shape"] = [
                n * s + d.integer(0, 1) for n, s in zip(x.shape[2:], strides, strict=True)
            ]
    if d.flag(0.3):
        del attributes["kernel_shape"]
    return Form(operator, operands, {**attributes, "group": group}, d.fix(1, 2, share=0.6))


@form("MaxPool", "AveragePool", "LpPool")
def pool(d: FormDraw, operator: str) -> Form:
    """Ceiled, dilated, padded."""
    d.extremes = False
    kind = d.float_type()
    if operator == "MaxPool" and d.opset >= 12 and d.flag(0.2):
        kind = d.choose(["int8", "uint8"])
    x = _image(d, kind)
    dilated = d.opset >= {"MaxPool": 10, "AveragePool": 19, "LpPool": 18}[operator]
    attributes = _windows(d, x.shape[2:], dilated)
    ceiled = d.opset >= (18 if operator == "LpPool" else 10)
    attributes |= d.some(ceil_mode=d.integer(0, 1)) if ceiled else {}
    if operator == "AveragePool":
        attributes |= d.some(count_include_pad=d.integer(0, 1))
    if operator == "LpPool":
        attributes |= d.some(p=d.integer(1, 3))
    if str(attributes.get("auto_pad", "")).startswith("SAME"):
        # Both references pad a dilated window, and one that its stride exceeds, by what is none.
        attributes.pop("dilations", None)
        attributes["strides"] = [min(2, k) for k in attributes["kernel_shape"]]
    both = operator == "MaxPool" and d.opset >= 8 and d.flag(0.3)
    if both:
        attributes |= d.some(storage_order=d.integer(0, 1))
        # Of equal elements each finds another one.
        x = d.rng.permutation(x.size).reshape(x.shape).astype(x.dtype)
    return Form(operator, [x], attributes, outputs=1 + both)


@form("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def global_pool(d: FormDraw, operator: str) -> Form:
    """All of the image."""
    d.extremes = False
    attributes = d.some(p=d.integer(1, 3)) if operator == "GlobalLpPool" else {}
    return Form(operator, [_image(d, d.float_type())], attributes)


@form("LRN", "LpNormalization", "MeanVarianceNormalization")
def simple_norm(d: FormDraw, operator: str) -> Form:
    """Without weights."""
    d.extremes = False
    x = _image(d, d.float_type())
    attributes = {
        "LRN": {"size": d.integer(1, 5), **d.some(alpha=0.5, beta=0.75, bias=2.0)},
        "LpNormalization": d.some(axis=d.axis(x.ndim), p=d.integer(1, 2)),
        "MeanVarianceNormalization": d.some(axes=d.axes(x.ndim)),
    }[operator]
    return Form(operator, [x], attributes)


@form("BatchNormalization", "InstanceNormalization", "GroupNormalization")
def channel_norm(d: FormDraw, operator: str) -> Form:
    """Weights a channel."""
    d.extremes = False
    group = d.integer(1, 2)
    x = _image(d, d.float_type(), group * d.integer(1, 2))
    kind, n = str(x.dtype), x.shape[1]
    attributes = d.some(epsilon=d.choose([1e-5, 0.5]))
    if operator == "GroupNormalization":
        attributes["num_groups"] = group
        n = n if d.opset >= 21 else group
    operands = [x, d.array(kind, (n,)), d.array(kind, (n,))]
    if operator == "BatchNormalization":
        operands += [d.array(kind, (n,)), np.abs(d.array(kind, (n,))) + np.asarray(0.5, kind)]
    return Form(operator, operands, attributes, d.fix(1, 2, 3, 4, share=0.6))


@form("LayerNormalization", "RMSNormalization")
def layer_norm(d: FormDraw, operator: str) -> Form:
    """From an axis on."""
    d.extremes = False
    x = d.array(d.float_type(), d.dims(1))
    axis = d.axis(x.ndim)
    kind, dims = str(x.dtype), x.shape[axis:]
    dims = d.broadcast(dims) if d.flag(0.2) else dims
    operands = [x, d.array(kind, dims)]
    if operator == "LayerNormalization" and d.flag():
        operands.append(d.array(kind, dims))
    outputs = d.choose([1, 1, 3]) if operator == "LayerNormalization" else 1
    return Form(
        operator, operands, {"axis": axis, **d.some(epsilon=1e-2)}, d.fix(1, 2, share=0.5), outputs
    )


_RESIZES = (
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
)


@form("Resize")
def resize(d: FormDraw, operator: str) -> Form:
    """Each mode with each way to count pixels."""
    d.extremes = False
    kind = (
        "float32"
        if d.flag(0.8)
        else str(d.choose(["uint8", "int8", "float16", "float64", "int32"]))
    )
    x = d.array(kind, (1, d.integer(1, 2), d.integer(1, 6), d.integer(1, 6)))
    axes = d.choose([None, [2, 3], [-1], [3, 2]]) if d.opset >= 18 else None
    places = axes or [0, 1, 2, 3]
    still = [a in (0, 1) for a in places]
    mode = d.choose(["nearest", "linear", "cubic"])
    attributes: dict[str, Any] = {"mode": mode} | ({"axes": axes} if axes else {})
    if d.opset >= 11:
        modes = (*_RESIZES, *(["tf_half_pixel_for_nn"] if d.opset < 13 else []))
        attributes["coordinate_transformation_mode"] = d.choose(modes)
        attributes |= d.some(
            nearest_mode=d.choose(["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
        )
    if mode == "cubic":
        attributes |= d.some(cubic_coeff_a=-0.5, exclude_outside=d.integer(0, 1))
    if d.opset >= 18 and mode != "nearest":
        attributes |= {"antialias": 1} if d.flag(0.25) else {}
    scales = np.asarray(
        [1 if s else d.choose([0.5, 0.6, 1, 1.5, 2, 2.3, 3, 1 / 3]) for s in still], np.float32
    )
    if d.opset < 11:
        attributes = {"mode": d.choose(["nearest", "linear"])}
        return Form(operator, [x, scales], attributes, d.fix(1))
    roi = None if d.opset >= 13 else np.zeros(0, np.float32)
    if d.flag():
        return Form(operator, [x, roi, scales], attributes, frozenset({1, 2}))
    # Of one axis ONNX Runtime takes the sides of others into its ratio, and onnx computes none.
    if d.opset >= 18 and len(places) > 1:
        attributes |= d.some(
            keep_aspect_ratio_policy=d.choose(["stretch", "not_larger", "not_smaller"])
        )
    sizes = longs(
        [x.shape[a] if s else d.integer(1, 9) for a, s in zip(places, still, strict=True)]
    )
    return Form(
        operator,
        [x, roi, None if roi is None else np.zeros(0, np.float32), sizes],
        attributes,
        frozenset({1, 2, 3}),
    )


@form("Upsample")
def upsample(d: FormDraw, operator: str) -> Form:
    """As before opset 10."""
    d.extremes = False
    d.opset = d.choose([7, 9])
    x = d.array("float32", (1, 2, d.integer(1, 5), d.integer(1, 5)))
    scales = [1.0, 1.0, *(float(d.choose([1, 1.5, 2, 3])) for _ in range(2))]
    mode = d.some(mode=d.choose(["nearest", "linear"]))
    if d.opset < 9:
        return Form(operator, [x], {"scales": scales, **mode})
    return Form(operator, [x, np.asarray(scales, np.float32)], mode, frozenset({1}))


@form("GridSample")
def grid_sample(d: FormDraw, operator: str) -> Form:
    """Each mode and border."""
    d.extremes = False
    old = d.opset < 20
    space = tuple(d.integer(1, 5) for _ in range(2 if old else d.choose([2, 2, 3])))
    x = d.array("float32", (d.integer(1, 2), 2, *space))
    ends = tuple(d.integer(1, 4) for _ in space)
    grid = d.rng.uniform(-1.5, 1.5, (x.shape[0], *ends, len(space))).astype(np.float32)
    modes = ["bilinear", "nearest", "bicubic"] if old else ["linear", "nearest", "cubic"]
    return Form(
        operator,
        [x, grid],
        d.some(
            mode=d.choose(modes),
            padding_mode=d.choose(["zeros", "border", "reflection"]),
            align_corners=d.integer(0, 1),
        ),
    )
