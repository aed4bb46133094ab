"""Convolutions of one, two and three dimensions, transposed ones too, grouped or not.

Every layout is brought into that of our kernels, channels first and ``OIHW``: constant weights
are turned over when the model is lowered. Depthwise weights of Relay are ``[channels, multiplier,
...]`` under whatever letters; in order they are the ``[channels * multiplier, 1, ...]`` of Relax.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from tvm import relax

from tvm_hetero.frontends.relay.operators.elementwise import reshape
from tvm_hetero.frontends.relay.operators.rule_context import Result, Rule, Site, shape_of

_SPATIAL = {1: "W", 2: "HW", 3: "DHW"}
# From this version on the letters of a transposed convolution's weights are as they are stored.
_LETTERS_SWAPPED_BEFORE = (0, 9)


def read_padding(site: Site, dims: int) -> list[int]:
    """Padding as ``[before..., after...]``, from one number, one a dimension, or all."""
    values = site.ints("padding", (0,) * dims) or (0,) * dims
    if len(values) == 1:
        values = list(values) * dims
    if len(values) == dims:
        values = [*values, *values]
    if len(values) != 2 * dims:
        raise site.error(f"padding has {len(values)} numbers, expected 1, {dims} or {2 * dims}")
    if min(values) < 0:
        raise site.error(f"padding={list(values)}, expected 0 or more")
    return list(values)


def _groups(site: Site, inputs: int, outputs: int | None = None) -> int:
    """Into how many groups the channels are divided, which come out even."""
    groups = int(site.integer("groups", 1))
    for count, what in ((inputs, "input"), (outputs, "output")):
        if count is not None and (groups < 1 or count % groups):
            raise site.error(f"groups={groups} does not divide the {count} {what} channels")
    return groups


def _checked(site: Site, kernel: list[int], channels: int) -> None:
    """``kernel_size`` and ``channels`` say again what the weights and types say."""
    size, count = site.ints("kernel_size", None), site.integer("channels", None)
    one = kernel[:1] if len(set(kernel)) == 1 else kernel
    if size is not None and list(size) not in (kernel, one):
        raise site.error(f"kernel_size={size}, but the weights are of {kernel}")
    if count is not None and count != channels:
        raise site.error(f"channels={count}, but the weights make {channels}")


def _conv(dims: int, make: Callable[..., Any]) -> Rule:
    letters = _SPATIAL[dims]

    def convolve(site: Site, data: relax.Expr, groups: int) -> relax.Expr:
        weight = site.permuted(
            site.tensor(1), site.text("kernel_layout", "OI" + letters), "OI" + letters
        )
        weight = _depthwise(site, weight, shape_of(data)[1], groups)
        _groups(site, shape_of(data)[1], shape_of(weight)[0])
        _checked(site, shape_of(weight)[2:], shape_of(weight)[0])
        return make(
            data,
            weight,
            **_options(site, dims, groups),
            dilation=site.spread("dilation", dims, 1, least=1),
            kernel_layout="OI" + letters,
        )

    return _channels_first(letters, convolve)


def _channels_first(letters: str, convolve: Callable[[Site, relax.Expr, int], relax.Expr]) -> Rule:
    """The rule that hands `convolve` its data channels first, and gives the layout asked for."""

    def rule(site: Site) -> Result:
        site.expect(2)
        layout = site.text("data_layout", "NC" + letters)
        out_layout = site.text("out_layout", "") or layout
        data = site.permuted(site.tensor(0), layout, "NC" + letters)
        result = convolve(site, data, _groups(site, shape_of(data)[1]))
        return site.permuted(site.emit(result), "NC" + letters, out_layout)

    return rule


def _options(site: Site, dims: int, groups: int) -> dict[str, Any]:
    """What Relax's convolutions, transposed or not, are called with alike."""
    return {
        "strides": site.spread("strides", dims, 1, least=1),
        "padding": read_padding(site, dims),
        "groups": groups,
        "data_layout": "NC" + _SPATIAL[dims],
        "out_dtype": site.dtype("out_dtype"),
    }


def _depthwise(site: Site, weight: relax.Expr, channels: int, groups: int) -> relax.Expr:
    shape = shape_of(weight)
    if groups == channels > 1 and shape[0] == channels:
        return reshape(site, weight, [shape[0] * shape[1], 1, *shape[2:]])
    return weight


def _transposed(dims: int, make: Callable[..., Any]) -> Rule:
    letters = _SPATIAL[dims]

    def convolve(site: Site, data: relax.Expr, groups: int) -> relax.Expr:
        weight = _input_first(site, letters, shape_of(data)[1], groups, dims)
        outputs = shape_of(weight)[1] * groups
        _checked(site, shape_of(weight)[2:], outputs)
        site.require("dilation", [[1] * dims, [1], 1, None])
        return make(
            data,
            weight,
            **_options(site, dims, groups),
            output_padding=site.spread("output_padding", dims, 0, least=0),
            kernel_layout="IO" + letters,
        )

    return _channels_first(letters, convolve)


def _input_first(site: Site, letters: str, inputs: int, groups: int, dims: int) -> relax.Expr:
    """The weights as ``[inputs, outputs / groups, ...]``.

    Before TVM 0.9 they were called ``OIHW`` and stored ``IOHW``; in one and three dimensions
    they still are. Where the shapes leave open which it is, the version decides.
    """
    stored = site.text("kernel_layout", ("IO" if dims == 2 else "OI") + letters)
    weight = site.tensor(1)
    swapped = stored.translate(str.maketrans("IO", "OI"))
    outputs = site.integer("channels", None)
    fits = [
        name
        for name in dict.fromkeys((stored, swapped))
        if _fits(shape_of(weight), name, inputs, outputs and outputs // groups)
    ]
    if not fits:
        raise site.error(
            f"weights {shape_of(weight)} in '{stored}' do not fit {inputs} input channels"
        )
    chosen = fits[0]
    if len(fits) == 2:
        version = tuple(int(n) for n in re.findall(r"\d+", site.version)[:2])
        old = dims != 2 or (bool(version) and version < _LETTERS_SWAPPED_BEFORE)
        chosen = "IO" + letters if old and stored == "OI" + letters else stored
    return site.permuted(weight, chosen, "IO" + letters)


def _fits(shape: list[int], layout: str, inputs: int, outputs: int | None) -> bool:
    if len(shape) != len(layout) or "I" not in layout or "O" not in layout:
        return False
    return shape[layout.index("I")] == inputs and (
        outputs is None or shape[layout.index("O")] == outputs
    )


RULES: dict[str, Rule] = {
    "nn.conv1d": _conv(1, relax.op.nn.conv1d),
    "nn.conv2d": _conv(2, relax.op.nn.conv2d),
    "nn.conv3d": _conv(3, relax.op.nn.conv3d),
    "nn.conv1d_transpose": _transposed(1, relax.op.nn.conv1d_transpose),
    "nn.conv2d_transpose": _transposed(2, relax.op.nn.conv2d_transpose),
    "nn.conv3d_transpose": _transposed(3, relax.op.nn.conv3d_transpose),
}
