"""Which inputs of the model a value depends on, and which of them a user could fix.

That a shape, an axis or a branch "depends on data" helps no one who did not write the model.  So a
refusal names the inputs behind it, and those that are the same in every run (a rate, a flag, sizes)
with the option that fixes them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import onnx
from onnx import NodeProto, ValueInfoProto

from tvm_hetero.frontends.onnx.model.inner_graphs import node_reads
from tvm_hetero.util.untrusted_names import printable

_FEW = 64
"""Elements of an input that someone might write on a command line."""


def inputs_behind(
    names: Iterable[str], makers: Mapping[str, NodeProto], inputs: Sequence[ValueInfoProto]
) -> list[ValueInfoProto]:
    """Return the inputs on which values depend, in the model's order.

    Parameters
    ----------
    names : iterable of str
        The values.
    makers : mapping of str to NodeProto
        The node that makes each value; constants and inputs have none.
    inputs : sequence of ValueInfoProto
        The model's.
    """
    found: set[str] = set()
    ahead = list(names)
    while ahead:
        value = ahead.pop()
        if value in found:
            continue
        found.add(value)
        if value in makers:
            ahead.extend(node_reads(makers[value]))
    return [value for value in inputs if value.name in found]


def how_to_fix(
    names: Iterable[str], makers: Mapping[str, NodeProto], inputs: Sequence[ValueInfoProto]
) -> str:
    """Return, in a sentence or two, what a user can do so that values become known.

    Parameters
    ----------
    names, makers, inputs
        As of `inputs_behind`.
    """
    behind = inputs_behind(names, makers, inputs)
    if not behind:
        return "Take a form of the model in which it is constant."
    listed = ", ".join(f"'{printable(each.name)}' ({_kind(each)})" for each in behind[:5])
    noun = "input" if len(behind) == 1 else "inputs"
    if not all(_can_be_written(each) for each in behind):
        return (
            f"It depends on the data of the {noun} {listed}, so it can be another in every run. "
            "Take a form of the model in which it is constant."
        )
    options = " ".join(_option(each) for each in behind)
    them = "it" if len(behind) == 1 else "them"
    return f"It depends on the {noun} {listed} alone: {options} would fix {them}."


def _can_be_written(value: ValueInfoProto) -> bool:
    """Whether an input looks like a setting and not like data: few numbers, floats in a row."""
    dims = [d.dim_value for d in value.type.tensor_type.shape.dim]
    floats = _dtype(value).startswith(("float", "bfloat"))
    return math.prod(dims) <= _FEW and (len(dims) <= 1 or not floats)


def _option(value: ValueInfoProto) -> str:
    dims = [d.dim_value for d in value.type.tensor_type.shape.dim]
    one = {"bool": "true"}.get(_dtype(value), "NUMBER")
    count = math.prod(dims)
    many = f"[{one},...]" if count > 1 else f"[{one}]"
    return f"--value {printable(value.name)}={one if not dims or count == 1 else many}"


def _kind(value: ValueInfoProto) -> str:
    shape = "x".join(str(d.dim_value) for d in value.type.tensor_type.shape.dim)
    return f"{_dtype(value)} {shape or 'scalar'}"


def _dtype(value: ValueInfoProto) -> str:
    return str(onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type).name)
