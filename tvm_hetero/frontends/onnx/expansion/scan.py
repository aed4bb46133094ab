"""``Scan`` unrolled: its number of steps is a dimension, and so known.

    state_0 = initial;  (state_{t+1}, y_t) = body(state_t, x_t)    for t = 0 ... T-1

where x_t are slices of the scanned operands along their axes, and the y_t are stacked; of no steps
that is nothing (`no_steps`).
"""

from __future__ import annotations

import numpy as np
from onnx import TypeProto, helper

from tvm_hetero.frontends.onnx.expansion.no_steps import stack_nothing
from tvm_hetero.frontends.onnx.expansion.registry import rewrites
from tvm_hetero.frontends.onnx.expansion.rewriting import Rewriting
from tvm_hetero.frontends.onnx.model.axes import checked_axis


@rewrites("Scan")
def rewrite_scan(r: Rewriting) -> bool:
    """Put one copy of the body after another."""
    body, count = r.attribute("body"), int(r.attribute("num_scan_inputs"))
    carried = len(r.inputs) - count
    states, scanned = r.inputs[:carried], r.inputs[carried:]
    axes = _axes(r, scanned)
    steps = {r.dims(name)[axis] for name, axis in zip(scanned, axes, strict=True)}
    if len(steps) != 1:
        r.refuse(f"scans operands of {sorted(steps)} steps at once")
    length = steps.pop()
    r.afford_nodes(length * (count + len(body.node)), "is unrolled; its steps")
    columns: list[list[str]] = [[] for _ in r.outputs[carried:]]
    for step in range(length):
        slices = _slices(r, scanned, axes, step, length)
        made = [r.fresh(f"step{step}_{output.name}") for output in body.output]
        r.splice(body, [*states, *slices], made)
        states = made[:carried]
        for column, name in zip(columns, made[carried:], strict=True):
            column.append(name)
    for state, name in zip(states, r.outputs, strict=False):
        if name:
            r.alias(state, name)
    if length:
        _stack(r, columns)
    else:
        given = [_type_of(r, name) for name in states]
        given += [_type_of(r, name, axis) for name, axis in zip(scanned, axes, strict=True)]
        along = r.attribute("scan_output_axes") or [0] * len(columns)
        stack_nothing(r, r.outputs[carried:], along, body, given)
    return True


def _axes(r: Rewriting, scanned: list[str]) -> list[int]:
    axes = r.attribute("scan_input_axes") or [0] * len(scanned)
    named = zip(axes, scanned, strict=True)
    return [checked_axis(r.refuse, axis, r.rank(name)) for axis, name in named]


def _slices(r: Rewriting, scanned: list[str], axes: list[int], step: int, length: int) -> list[str]:
    """Return the names of what the operands are in one step."""
    backwards = r.attribute("scan_input_directions") or [0] * len(scanned)
    found = []
    for name, axis, reverse in zip(scanned, axes, backwards, strict=True):
        index = r.constant(length - 1 - step if reverse else step, np.int64)
        found.append(r.add("Gather", [name, index], axis=axis))
    return found


def _type_of(r: Rewriting, name: str, without: int | None = None) -> TypeProto:
    """Return the type of an operand, or of a slice of it across an axis."""
    dims = list(r.dims(name))
    if without is not None:
        del dims[without]
    return helper.make_tensor_type_proto(r.element_type(name), dims)


def _stack(r: Rewriting, columns: list[list[str]]) -> None:
    """Give each scan output as one tensor of all steps."""
    carried = len(r.outputs) - len(columns)
    axes = r.attribute("scan_output_axes") or [0] * len(columns)
    backwards = r.attribute("scan_output_directions") or [0] * len(columns)
    for place, (pieces, axis, reverse) in enumerate(zip(columns, axes, backwards, strict=True)):
        name = r.outputs[carried + place]
        if not name:
            continue
        new = r.constant([axis], np.int64)
        ordered = pieces[::-1] if reverse else pieces
        # A negative axis counts from the end of the stacked tensor, as Unsqueeze's does.
        unsqueezed = [r.add("Unsqueeze", [piece, new]) for piece in ordered]
        r.add("Concat", unsqueezed, [name], axis=axis)
