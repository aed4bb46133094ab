"""Convolution with what follows it, and max pooling with channels last."""

from __future__ import annotations

from typing import Any

from tvm_hetero.frontends.onnx.expansion.rewriting import Rewriting
from tvm_hetero.frontends.onnx.microsoft.activations import add_activation, as_floats
from tvm_hetero.frontends.onnx.microsoft.forms import contributed

_WINDOW = ("auto_pad", "dilations", "kernel_shape", "pads", "strides")


@contributed(
    "FusedConv", operands=4, attributes=(*_WINDOW, "group", "activation", "activation_params")
)
def rewrite_fused_conv(r: Rewriting) -> None:
    """Conv, plus Z, and the activation of that."""
    value = r.add("Conv", _without_missing(r.inputs[:3]), **_kept(r, (*_WINDOW, "group")))
    if r.operand(3):
        value = r.add("Add", [value, r.operand(3)])
    parameters = as_floats(r.attribute("activation_params"))
    add_activation(r, str(r.attribute("activation", "")), parameters, value)


@contributed("NhwcMaxPool", operands=1, attributes=(*_WINDOW, "ceil_mode"))
def rewrite_nhwc_max_pool(r: Rewriting) -> None:
    """Bring the channels to the front and back."""
    rank = r.rank(r.inputs[0])
    first = r.add("Transpose", r.inputs, perm=channels_first_order(rank))
    pooled = r.add("MaxPool", [first], **_kept(r, (*_WINDOW, "ceil_mode")))
    r.add("Transpose", [pooled], r.outputs, perm=channels_last_order(rank))


@contributed("NhwcConv", operands=3, attributes=(*_WINDOW, "group"))
def rewrite_nhwc_conv(r: Rewriting) -> None:
    """Bring channels to the front and back, those of the weights as well."""
    rank = r.rank(r.inputs[0])
    order = channels_first_order(rank)
    first = [r.add("Transpose", [name], perm=order) for name in r.inputs[:2]]
    made = r.add("Conv", _without_missing([*first, r.operand(2)]), **_kept(r, (*_WINDOW, "group")))
    r.add("Transpose", [made], r.outputs, perm=channels_last_order(rank))


def channels_first_order(rank: int) -> list[int]:
    """Return the permutation that takes (N, ..., C) to (N, C, ...)."""
    return [0, rank - 1, *range(1, rank - 1)]


def channels_last_order(rank: int) -> list[int]:
    """Return the permutation that takes (N, C, ...) to (N, ..., C)."""
    return [0, *range(2, rank), 1]


def _kept(r: Rewriting, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: r.attribute(name) for name in names}


def _without_missing(names: list[str]) -> list[str]:
    while names and not names[-1]:
        names = names[:-1]
    return names
