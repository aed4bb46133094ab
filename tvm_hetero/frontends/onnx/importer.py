"""From an ONNX model to a Relax module that is ready to be lowered and partitioned."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx

from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.onnx import microsoft, quantized  # noqa: F401  (register rewriters)
from tvm_hetero.frontends.onnx.load import (
    copy_model,
    read_model,
    settle_isolated,
    settle_model,
)
from tvm_hetero.frontends.onnx.model.isolation import is_isolated, run_isolated
from tvm_hetero.frontends.onnx.model.limits import DEFAULT_LIMITS, OnnxLimits
from tvm_hetero.frontends.onnx.model.model_digest import ModelDigest
from tvm_hetero.frontends.onnx.source import note_source
from tvm_hetero.processes.forked_child import Section
from tvm_hetero.util.tvm_state import one_thread

if TYPE_CHECKING:
    import tvm


def from_onnx(
    model: str | os.PathLike[str] | onnx.ModelProto,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    values: Mapping[str, Any] | None = None,
    random_weights: int | None = None,
    limits: OnnxLimits = DEFAULT_LIMITS,
) -> tvm.ir.IRModule:
    """Import an ONNX model into Relax.

    Parameters
    ----------
    model : path or onnx.ModelProto
        A file, or a model in memory (which is not changed).
    shapes : mapping of str to sequence of int, optional
        Shapes of inputs whose dimensions the model leaves open.
    values : mapping of str to number, list or array, optional
        Inputs that are fixed to a value; what depends on them alone is computed, and they are
        no inputs of the result.
    random_weights : int, optional
        A seed: draw all weights at random (:func:`randomize_weights`).
    limits : Limits
        Caps on sizes and counts.

    Returns
    -------
    tvm.ir.IRModule
        One function, ``main``, with static shapes, the weights as constants and no
        operation on constants alone.  Attributes of ``main``: ``hetero_input_names``
        and ``hetero_output_names`` (the names in the ONNX model, in order; TVM's
        parameters bear identifiers made from them) and ``hetero_model_name``; of a file also
        where it lies (`tvm_hetero.frontends.onnx.source`).

    Raises
    ------
    ModelError
        The model is refused, or TVM's importer cannot take it.
    """
    digest = ModelDigest()
    if isinstance(model, onnx.ModelProto):
        name, given = model.graph.name, copy_model(model, limits)
    else:
        name, given = Path(model).stem, read_model(model, limits, digest)
    module = _import_read(given, name, shapes, values, random_weights, limits)
    if isinstance(model, onnx.ModelProto):
        return module
    given_as = shapes or {}, values or {}, random_weights, limits
    return note_source(module, Path(model), digest, *given_as)


def _import_read(
    given: onnx.ModelProto,
    name: str,
    shapes: Mapping[str, Sequence[int]] | None,
    values: Mapping[str, Any] | None,
    random_weights: int | None,
    limits: OnnxLimits,
) -> tvm.ir.IRModule:
    """Import a model that was read, as :func:`from_onnx`."""
    if values:
        # What they make is more than the file says, by which a child's limits are measured.
        settle_isolated(given, shapes, values, limits)
        return import_checked(given, name, random_weights=random_weights, limits=limits)

    def settle() -> None:
        settle_model(given, shapes, None, limits)

    # Checked and imported by one child: with much in memory a fork costs more than the rest
    # (47 ms at 1 GB; a model of one node takes 1 ms).
    return _import_model(given, name, random_weights, limits, settle)


def import_checked(
    model: onnx.ModelProto,
    name: str,
    *,
    random_weights: int | None = None,
    limits: OnnxLimits = DEFAULT_LIMITS,
) -> tvm.ir.IRModule:
    """Import a model that has been checked: the second half of :func:`from_onnx`.

    Parameters
    ----------
    model : onnx.ModelProto
        As `load_model` returns it; it is changed only where this is called in a child.
    name : str
        Of the model.
    random_weights, limits
        As of :func:`from_onnx`.

    Returns
    -------
    tvm.ir.IRModule
        As of :func:`from_onnx`.

    Raises
    ------
    ModelError
        As of :func:`from_onnx`.
    """
    return _import_model(model, name, random_weights, limits, lambda: None)


@one_thread
def _import_model(
    model: onnx.ModelProto,
    name: str,
    random_weights: int | None,
    limits: OnnxLimits,
    settle: Callable[[], None],
) -> tvm.ir.IRModule:
    """Import a model after `settle` has changed it, both in a child; as :func:`import_checked`."""
    # Converters are kernels' neighbours: TVM is loaded with them, only now, and not in the child.
    from tvm_hetero.frontends.onnx.conversion.memory_files import MemoryFiles
    from tvm_hetero.frontends.onnx.conversion.module_answer import pack_module, unpack_module
    from tvm_hetero.frontends.onnx.graph_import import import_graph

    def work() -> list[Section]:
        weights.clear()
        settle()
        made = import_graph(model, name, random_weights, limits, weights)
        return pack_module(made, weights)

    if is_isolated():
        settle()
        return import_graph(model, name, random_weights, limits)
    with closing(MemoryFiles()) as weights:
        sections = run_isolated(work, model, limits, draws=random_weights is not None)
        try:
            return unpack_module(sections, weights.mapped())
        except MemoryError as error:
            raise ModelError(f"the model needs more memory than there is ({error})") from None
