"""A model on its way back from a child: all of it but the weights that the parent has already.

Sections: the model with small constants and with those that the child has made; the
number of constants that it has not touched; their names, one to a section.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx import TensorProto

from tvm_hetero.errors import ModelError
from tvm_hetero.processes.forked_child import Section

_SMALL = 1024
"""Elements of constants that are sent in any case: some are changed where they are."""


def large_tensors(model: onnx.ModelProto) -> dict[str, TensorProto]:
    """Return the constants that need not be sent back where they are still the same objects."""
    return {t.name: t for t in model.graph.initializer if math.prod(t.dims) > _SMALL}


def pack_model(model: onnx.ModelProto, kept: Collection[str]) -> list[Section]:
    """Return a model as sections; it loses its constants by that.

    Parameters
    ----------
    model : onnx.ModelProto
        In the child.
    kept : collection of str
        Names of constants that the parent has too, with the same data.
    """
    tensors = model.graph.initializer
    sent = [t.SerializeToString() for t in tensors if t.name not in kept]
    del tensors[:]
    names = [name.encode(errors="surrogateescape") for name in sorted(kept)]
    return [model.SerializeToString(), len(names).to_bytes(8, "little"), *names, *sent]


def unchanged(model: onnx.ModelProto, before: dict[str, TensorProto]) -> set[str]:
    """Return the names of constants that are the objects of `before` still."""
    return {t.name for t in model.graph.initializer if t.name in before and before[t.name] is t}


def unpack_model(sections: Sequence[Section], model: onnx.ModelProto) -> None:
    """Make of the parent's model what the child has made of its own, in place.

    Parameters
    ----------
    sections : sequence of bytes
        As of `pack_model`.
    model : onnx.ModelProto
        As it was when the child was made.

    Raises
    ------
    ModelError
        What came back is no model.
    """
    try:
        made = onnx.ModelProto.FromString(bytes(sections[0]))
        count = int.from_bytes(sections[1], "little")
        sent = [TensorProto.FromString(bytes(section)) for section in sections[2 + count :]]
    except (DecodeError, UnicodeDecodeError, RuntimeError, IndexError):
        raise ModelError(
            "What the child made of the model is no model. Please report it."
        ) from None
    kept = {bytes(section).decode(errors="surrogateescape") for section in sections[2 : 2 + count]}
    tensors = model.graph.initializer
    if not kept <= {tensor.name for tensor in tensors}:
        raise ModelError("What the child made of the model has lost weights. Please report it.")
    for index in reversed(range(len(tensors))):
        if tensors[index].name not in kept:
            del tensors[index]
    _clear_but(model, "graph")
    _clear_but(model.graph, "initializer")
    model.MergeFrom(made)
    tensors.extend(sent)


def _clear_but(message: onnx.ModelProto | onnx.GraphProto, name: str) -> None:
    for field in message.DESCRIPTOR.fields:
        if field.name != name:
            message.ClearField(field.name)
