"""The axes of a model's file: its symbols, and what the user says of them."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence

from onnx import ModelProto, ValueInfoProto

from tvm_hetero.errors import UsageError
from tvm_hetero.frontends.onnx.dimensions import open_unwritten, shape_text
from tvm_hetero.frontends.onnx.load import read_structure
from tvm_hetero.sizes.axes import Dimension, OpenAxis, OpenShapes, sizes_text
from tvm_hetero.util.nearest import nearest
from tvm_hetero.util.untrusted_names import printable


def read_axes(
    path: str | os.PathLike[str],
    shapes: Mapping[str, Sequence[Dimension]],
    fixed: Collection[str] = (),
) -> OpenShapes:
    """The open dimensions of a model, from its file and the shapes that are given.

    Parameters
    ----------
    path : an ONNX file.
    shapes : by input name, for each dimension a number or its sizes: a ``range``, a list.
    fixed : inputs that are fixed to a value, and none of the result's.

    Raises
    ------
    UsageError
        If no dimension has several sizes; an input is unknown or of another rank; sizes are given
        for a dimension that the model fixes, or others for one symbol; a size is left open.
    ModelError
        If the file is refused.
    """
    model = read_structure(path)
    open_unwritten(model, shapes.keys())
    inputs = _inputs(model, fixed)
    for name in shapes:
        if name not in inputs:
            known = nearest(name, inputs)
            raise UsageError(f"a shape was given for {printable(name)!r}, which is no input{known}")
    given: dict[str, Sequence[int]] = {}
    for name, dims in shapes.items():
        _bind(inputs[name], dims, given)
    axes = {name: sizes for name, sizes in given.items() if len(sizes) > 1}
    if not axes:
        raise UsageError("no dimension has several sizes; give one, such as x=1x3x48x160..640/32")
    closed = {name: sizes[0] for name, sizes in given.items() if name not in axes}
    return OpenShapes(
        axes=tuple(OpenAxis(name, sizes) for name, sizes in axes.items()),
        shapes={name: _pattern(value, axes, closed) for name, value in inputs.items()},
    )


def _inputs(model: ModelProto, fixed: Collection[str]) -> dict[str, ValueInfoProto]:
    """The inputs that a request gives, by name."""
    other = {tensor.name for tensor in model.graph.initializer} | set(fixed)
    return {value.name: value for value in model.graph.input if value.name not in other}


def _names(value: ValueInfoProto) -> list[int | str]:
    """Of each dimension its number, or the name of its axis."""
    dims = value.type.tensor_type.shape.dim
    return [
        d.dim_value if d.HasField("dim_value") else d.dim_param or f"{value.name}[{i}]"
        for i, d in enumerate(dims)
    ]


def _bind(
    value: ValueInfoProto, dims: Sequence[Dimension], given: dict[str, Sequence[int]]
) -> None:
    """Note what is given for an input's open dimensions; `given` is by axis."""
    names, what = _names(value), f"input {printable(value.name)!r}"
    if len(dims) != len(names):
        raise UsageError(
            f"{what} has {len(names)} dimensions ({shape_text(value)}), and {len(dims)} are given"
        )
    for name, dim in zip(names, dims, strict=True):
        sizes = (dim,) if isinstance(dim, int) else dim
        if isinstance(name, int):
            _check_fixed(what, name, sizes)
        elif name in given and list(given[name]) != list(sizes):
            raise UsageError(
                f"{what}: dimension {printable(name)} has sizes {sizes_text(sizes)}, and elsewhere "
                f"{sizes_text(given[name])}; it is one dimension in the model: give it the same"
            )
        else:
            given[name] = sizes


def _check_fixed(what: str, number: int, sizes: Iterable[int]) -> None:
    if list(sizes) != [number]:
        raise UsageError(
            f"{what}: a dimension is {number} in the model, which has no other size; give {number}"
        )


def _pattern(
    value: ValueInfoProto, axes: Mapping[str, Sequence[int]], closed: Mapping[str, int]
) -> tuple[int | str, ...]:
    found: list[int | str] = []
    for name in _names(value):
        if isinstance(name, str) and name not in axes:
            if name not in closed:
                raise UsageError(
                    f"input {printable(value.name)!r} {shape_text(value)}: dimension "
                    f"{printable(name)} is open; give a shape for this input too"
                )
            name = closed[name]
        found.append(name)
    return tuple(found)
