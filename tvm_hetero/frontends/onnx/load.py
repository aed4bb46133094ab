"""Load an untrusted model.

The order matters: what is cheap and needs no allocation comes first.

1. the file: exists, plain, not too large, a protobuf message;
2. its structure: a graph, a known version, counts and dimensions within limits, unique
   names (``structure``);
3. its external data, from the model's own folder alone (``external``);
4. its data: as much as the shapes say (``tensors``);
5. inputs: fixed to values (``fixed_values``), all others of static shape (``shapes``);
6. onnx's own checker and shape inference, on the structure without the weights; outputs that are
   declared to be something else than what the nodes make (``verify_types``).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.onnx.check_bodies import check_bodies
from tvm_hetero.frontends.onnx.external import load_external, refuse_external
from tvm_hetero.frontends.onnx.fixed_values import read_values
from tvm_hetero.frontends.onnx.model.isolation import is_isolated, run_isolated
from tvm_hetero.frontends.onnx.model.limits import DEFAULT_LIMITS, OnnxLimits
from tvm_hetero.frontends.onnx.model.model_answer import (
    large_tensors,
    pack_model,
    unchanged,
    unpack_model,
)
from tvm_hetero.frontends.onnx.model.model_digest import ModelDigest
from tvm_hetero.frontends.onnx.model.mutable_graph import OnnxGraph, static_dims
from tvm_hetero.frontends.onnx.model.native_calls import CHECKER, call_native, invalid_text
from tvm_hetero.frontends.onnx.model.tensors import check_data, check_sizes, element_count
from tvm_hetero.frontends.onnx.model.verify_types import verify_declared
from tvm_hetero.frontends.onnx.resize_scales import settle_scales
from tvm_hetero.frontends.onnx.runtime_operators import own_domain
from tvm_hetero.frontends.onnx.settled_windows import settle_windows
from tvm_hetero.frontends.onnx.shapes import fix_shapes
from tvm_hetero.frontends.onnx.stated_defaults import state_defaults
from tvm_hetero.frontends.onnx.topological_order import sort_nodes
from tvm_hetero.frontends.onnx.validate import check_structure
from tvm_hetero.processes.forked_child import Section
from tvm_hetero.util.plain_file import open_plain_file, read_at_most
from tvm_hetero.util.untrusted_names import printable


def load_model(
    path: str | os.PathLike[str],
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    values: Mapping[str, Any] | None = None,
    limits: OnnxLimits = DEFAULT_LIMITS,
    digest: ModelDigest | None = None,
) -> onnx.ModelProto:
    """Load an ONNX file with all that it needs, or say clearly why not.

    Parameters
    ----------
    path : path
        The ``.onnx`` file.
    shapes : mapping of str to sequence of int, optional
        Shapes of inputs whose dimensions the model leaves open.
    values : mapping of str to number, list or array, optional
        Inputs that are fixed to a value: constants of the model that is returned.
    limits : Limits
        Caps on sizes and counts.
    digest : ModelDigest, optional
        Takes note of what is read.

    Returns
    -------
    onnx.ModelProto
        Complete in memory (no external data), every input static.

    Raises
    ------
    ModelError
        The file or the model is refused; the text says what to do.
    """
    model = read_model(path, limits, digest)
    settle_isolated(model, shapes, values, limits)
    return model


def read_model(
    path: str | os.PathLike[str],
    limits: OnnxLimits = DEFAULT_LIMITS,
    digest: ModelDigest | None = None,
) -> onnx.ModelProto:
    """Take steps 1 to 4 of the module's list: a model as it lies in its file.

    Parameters
    ----------
    path, limits, digest
        As of :func:`load_model`.

    Raises
    ------
    ModelError
        The file is refused.
    """
    file = Path(path)
    data = _read(file, limits)
    if digest is not None:
        digest.add_file(data)
    model = _parse(data, file)
    check_structure(model, limits)
    check_sizes(model, limits)
    load_external(model, file.parent, digest)
    check_data(model)
    check_bodies(model)
    return model


def read_structure(
    path: str | os.PathLike[str], limits: OnnxLimits = DEFAULT_LIMITS
) -> onnx.ModelProto:
    """Read an ONNX file as it is written: steps 1 and 2, weights of other files not loaded.

    Raises
    ------
    ModelError
        The file or its structure is refused.
    """
    file = Path(path)
    model = _parse(_read(file, limits), file)
    check_structure(model, limits)
    return model


def check_model(
    model: onnx.ModelProto,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    values: Mapping[str, Any] | None = None,
    limits: OnnxLimits = DEFAULT_LIMITS,
) -> onnx.ModelProto:
    """Return a checked copy of a model in memory; as :func:`load_model` otherwise."""
    copy = copy_model(model, limits)
    settle_isolated(copy, shapes, values, limits)
    return copy


def copy_model(model: onnx.ModelProto, limits: OnnxLimits = DEFAULT_LIMITS) -> onnx.ModelProto:
    """Return a copy of a model in memory that has passed what :func:`read_model` asks of a file.

    Raises
    ------
    ModelError
        The model is refused.
    """
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    check_structure(copy, limits)
    check_sizes(copy, limits)
    refuse_external(copy)
    check_data(copy)
    check_bodies(copy)
    return copy


def settle_isolated(
    model: onnx.ModelProto,
    shapes: Mapping[str, Sequence[int]] | None,
    values: Mapping[str, Any] | None,
    limits: OnnxLimits,
) -> None:
    """Take steps 5 and 6 of the module's list, in place: in a child, since onnx is native code.

    Raises
    ------
    ModelError
        The model is refused, or the child was lost.
    """

    def work() -> list[Section]:
        before = large_tensors(model)
        settle_model(model, shapes, values, limits)
        return pack_model(model, unchanged(model, before))

    if is_isolated():
        settle_model(model, shapes, values, limits)
    else:
        unpack_model(run_isolated(work, model, limits), model)


def settle_model(
    model: onnx.ModelProto,
    shapes: Mapping[str, Sequence[int]] | None,
    values: Mapping[str, Any] | None,
    limits: OnnxLimits,
) -> None:
    """Take steps 5 and 6 of the module's list, in place, here: for who is in a child already.

    Raises
    ------
    ModelError
        The model is refused.
    """
    sort_nodes(model)
    own_domain(model)
    fix_shapes(model, shapes, read_values(model, values), limits)
    try:
        _check_with_onnx(model, limits)
    except ModelError as error:
        if not shapes:
            raise
        given = ", ".join(f"{printable(k)}={'x'.join(map(str, v))}" for k, v in shapes.items())
        raise ModelError(
            f"{error} Or the shapes given ({given}) are none that the model takes: leave them out, "
            "and some that fit are named."
        ) from None


def _read(file: Path, limits: OnnxLimits) -> bytes:
    """Return the bytes of a plain file within the size limit."""
    shown = printable(file, 200)
    try:
        with open_plain_file(file) as opened:
            size = os.fstat(opened.fileno()).st_size
            data = b"" if size > limits.file_bytes else read_at_most(opened, limits.file_bytes)
    except OSError as error:
        raise ModelError(
            f"Cannot open the model '{shown}': {error.strerror}. Give the path of an .onnx file."
        ) from None
    if size > limits.file_bytes:
        raise ModelError(
            f"'{shown}' has {size} bytes; at most {limits.file_bytes} are accepted. "
            "Export the model with its weights as external data (onnx.save_model with "
            "save_as_external_data=True)."
        )
    return data


def _parse(data: bytes, file: Path) -> onnx.ModelProto:
    """Return the model in `data`; whether it makes sense is for later steps."""
    shown = printable(file, 200)
    if not data:
        raise ModelError(f"'{shown}' is empty; an ONNX model was expected.")
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except (DecodeError, UnicodeDecodeError, RuntimeError):
        raise ModelError(
            f"'{shown}' is not an ONNX file, or was cut short ({len(data)} bytes). "
            "Download or export it again."
        ) from None
    return model


def _check_with_onnx(model: onnx.ModelProto, limits: OnnxLimits) -> None:
    """Let onnx judge structure and shapes; refuse values of impossible size.

    Output shapes that were open are set to what inference found.
    """
    try:
        _check(OnnxGraph(model).skeleton())
        settle_scales(model)
        settle_windows(model)
        state_defaults(model)
        graph = OnnxGraph(model)
        verify_declared(graph)
        inferred = graph.inferred(strict=True)
        found = [*inferred.graph.value_info, *inferred.graph.output]
        _state_outputs(model, inferred)
    except (ModelError, MemoryError):
        raise
    except Exception as error:
        raise ModelError(invalid_text(error)) from None
    for value in found:
        dims = static_dims(value)
        if dims is not None:
            element_count(dims, f"value '{printable(value.name)}'", limits)


def _check(skeleton: onnx.ModelProto) -> None:
    """Run onnx's checker; it wants outputs to have a shape field, whatever that says."""
    for value in skeleton.graph.output:
        if value.type.WhichOneof("value") in ("tensor_type", None):
            value.type.tensor_type.shape.SetInParent()
    call_native(CHECKER, skeleton, onnx.checker.check_model)


def _state_outputs(model: onnx.ModelProto, inferred: onnx.ModelProto) -> None:
    """Set the open output shapes of `model` to what inference found."""
    for ours, theirs in zip(model.graph.output, inferred.graph.output, strict=True):
        if static_dims(theirs) is not None:
            ours.type.CopyFrom(theirs.type)
