"""Pooling: every distinct one of the light models."""

from __future__ import annotations

from .case import Case, Shape, moved, node
from .networks import Operator, operators

_KINDS = ("MaxPool", "AveragePool", "GlobalAveragePool")


def cases() -> list[Case]:
    """Each pooling once, with the networks that have it."""
    found: dict[str, Case] = {}
    for op in operators(*_KINDS):
        case = _case(op)
        found.setdefault(case.name, case)
    return list(found.values())


def tiny() -> Case:
    """A window of one value."""
    nodes = (node("MaxPool", ("x",), kernel_shape=[1, 1]),)
    return Case("1x1x1", nodes, {"x": (1, 1, 1, 1)}, {}, 1.0, "copy")


def _case(op: Operator) -> Case:
    x = op.shapes[0]
    attributes = {
        name: op.attributes[name]
        for name in ("kernel_shape", "strides", "pads", "count_include_pad", "ceil_mode")
        if name in op.attributes
    }
    kind = op.kind.removesuffix("Pool").removeprefix("Global")
    return Case(
        f"{kind} {_text(x)} {_window(op)}",
        (node(op.kind, ("x",), **attributes),),
        {"x": x},
        {},
        moved(x, op.output),
        "read" if op.output[2:] == (1, 1) else "copy",
        op.model,
    )


def _window(op: Operator) -> str:
    if "kernel_shape" not in op.attributes:
        return "whole"
    window = "x".join(map(str, op.ints("kernel_shape", [])))
    pads = ",".join(map(str, dict.fromkeys(op.ints("pads", [0]))))
    return f"{window} s{op.ints('strides', [1])[0]} p{pads}"


def _text(shape: Shape) -> str:
    return "x".join(map(str, shape[1:]))
