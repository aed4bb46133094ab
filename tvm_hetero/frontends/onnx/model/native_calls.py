"""Calls of native code on a whole graph: what it dies of is found by bisection.

onnx's checker, shape inference and version converter take a graph as a whole, so the note of a
child that they killed (`processes.step_notes`) names no node. The work is then done once more, with
a search before each such call: children of the child call it on the first half of the nodes, and so
on, until one node is left with which it dies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import onnx

from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.onnx.model.tensors import describe
from tvm_hetero.processes.forked_call import ChildLost, call_in_fork
from tvm_hetero.processes.forked_child import ChildLimits
from tvm_hetero.processes.step_notes import note_step
from tvm_hetero.util.untrusted_names import printable

CHECKER = "onnx's checker"
INFERENCE = "onnx's shape inference"
CONVERTER = "onnx's version converter"

_Made = TypeVar("_Made")


class _Searching:
    """With which limits children look for the node that kills; None: no one looks."""

    limits: ChildLimits | None = None


def call_native(
    phase: str, model: onnx.ModelProto, call: Callable[[onnx.ModelProto], _Made]
) -> _Made:
    """Return what `call` makes of a model.

    Parameters
    ----------
    phase : str
        What is called, in words.
    model : onnx.ModelProto
        Without much data.
    call : callable
        Takes the model.

    Raises
    ------
    ModelError
        onnx infers that the model is invalid. In a search: names the node that the call does not
        survive.
    """
    nodes = model.graph.node
    if _Searching.limits is not None and len(nodes) > 1:
        _search(phase, model, call, _Searching.limits)
    note_step(phase, describe(nodes[0], 0) if len(nodes) == 1 else "")
    return _called(call, model)


def _called(call: Callable[[onnx.ModelProto], _Made], model: onnx.ModelProto) -> _Made:
    """Call; memory that native code did not get is a matter of memory here too."""
    try:
        return call(model)
    except onnx.shape_inference.InferenceError as error:
        raise ModelError(invalid_text(error)) from None
    except Exception as error:
        if "bad_alloc" in str(error):
            raise MemoryError from None
        raise


@contextmanager
def searching(limits: ChildLimits) -> Iterator[None]:
    """Look for the node that kills, before each call on a whole graph."""
    _Searching.limits = limits
    try:
        yield
    finally:
        _Searching.limits = None


def invalid_text(error: Exception) -> str:
    """Return how a model is refused that onnx refuses."""
    return f"onnx finds the model invalid: {reason_of(error, 400)} Export the model again."


def reason_of(error: Exception, limit: int) -> str:
    """Return what native code says, as one sentence: some of it ends without a full stop."""
    said = printable(" ".join(str(error).split()), limit) or "it does not say why"
    return said if said.endswith((".", "!", "?")) else f"{said}."


def death_text(reason: str, phase: str, detail: str) -> str:
    """Return how a model is refused at which native code died.

    Parameters
    ----------
    reason : str
        As of `ChildLost`.
    phase, detail : str
        What it was at, each maybe ''.
    """
    what = f"{detail} cannot be taken" if detail else "The model cannot be taken"
    at = phase or "The import"
    return (
        f"{what}: {at} does not survive it ({reason}). The file is damaged or made to harm; "
        "download or export it again. If it runs elsewhere, please report it, with the model."
    )


def _search(
    phase: str,
    model: onnx.ModelProto,
    call: Callable[[onnx.ModelProto], object],
    limits: ChildLimits,
) -> None:
    """Refuse the model by the node after which the call dies; nothing if it lives."""
    nodes = list(model.graph.node)
    survived, fatal = 0, len(nodes)
    reason = _death(model, call, limits)
    if reason is None:
        return
    while fatal - survived > 1:
        middle = (survived + fatal) // 2
        found = _death(_first_nodes(model, middle), call, limits)
        survived, fatal = (middle, fatal) if found is None else (survived, middle)
        reason = found or reason
    raise ModelError(death_text(reason, phase, describe(nodes[fatal - 1], fatal - 1)))


def _death(
    model: onnx.ModelProto, call: Callable[[onnx.ModelProto], object], limits: ChildLimits
) -> str | None:
    """Return of what a child dies that makes the call, None if it does not."""

    def work() -> list[bytes]:
        try:
            _called(call, model)
        except MemoryError:
            raise
        except Exception:
            return []  # a refusal: it lives
        return []

    try:
        call_in_fork(work, limits)
    except ChildLost as lost:
        return str(lost)
    return None


def _first_nodes(model: onnx.ModelProto, count: int) -> onnx.ModelProto:
    """Return the model of the first nodes alone."""
    part = onnx.ModelProto()
    part.CopyFrom(model)
    del part.graph.node[count:]
    made = {name for node in part.graph.node for name in node.output}
    kept = [value for value in model.graph.output if value.name in made]
    del part.graph.output[:]
    part.graph.output.extend(kept)
    return part
