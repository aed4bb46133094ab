"""Native code reads a user's model in a child: its crash, hang or greed is an error of ours.

onnx's checker, its shape inference and TVM's importer are C++ that was not written against
attackers. What they make comes back as data. No file decides whether there is a child, neither by
its size nor by what is in it: whatever is about to call native code is handed to
:func:`run_isolated`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import onnx
from onnx import TensorProto, numpy_helper

from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.onnx.model.limits import OnnxLimits
from tvm_hetero.frontends.onnx.model.native_calls import death_text, searching
from tvm_hetero.frontends.onnx.model.tensors import all_tensors, byte_size
from tvm_hetero.processes.forked_call import ChildFault, ChildLost, call_in_fork
from tvm_hetero.processes.forked_child import ChildLimits, Section
from tvm_hetero.processes.step_notes import notes_steps
from tvm_hetero.util.tvm_state import TVM_STATE
from tvm_hetero.util.untrusted_names import printable

# What a small model may use: onnx and TVM need some 100 MiB and 10 ms a node at most.
_MEMORY = 3 << 28
_STEP_SECONDS = 2.0
_SECONDS_A_NODE = 0.01
_BYTES_A_SECOND = 50e6
# Copies of the weights while they are folded, converted and sent back, some of them as float64.
_COPIES = 12
_FEW_COPIES = 4
_TOTAL_SECONDS = 3600.0
# A search has about 17 steps for the largest graph.
_SEARCH_SHARE = 0.25


def is_isolated() -> bool:
    """Whether this process is such a child already."""
    return notes_steps()


def run_isolated(
    work: Callable[[], Sequence[Section]],
    model: onnx.ModelProto,
    limits: OnnxLimits,
    *,
    draws: bool = False,
    memory: int = 0,
    step_seconds: float = 0.0,
) -> list[Section]:
    """Return what `work` makes, computed in a child.

    Parameters
    ----------
    work : callable
        Works on `model`, and may change it: this process does not see that.
    model : onnx.ModelProto
        By whose size the child's limits are measured.
    limits : OnnxLimits
        Caps on what a model may make.
    draws : bool
        Whether weights are drawn at random: of any size within the limits.
    memory, step_seconds : int, float
        What the child may use more than an import: bytes, and CPU time of each step.

    Returns
    -------
    list of memoryview
        The sections.

    Raises
    ------
    ModelError
        As `work` raises it; or the child was lost: the text names the phase and the node.
    """
    allowed = _allowed(model, limits, draws)
    allowed = replace(
        allowed,
        memory=allowed.memory + memory,
        step_seconds=allowed.step_seconds + step_seconds,
    )
    try:
        with TVM_STATE:  # a child of whoever does not hold it could not have it any more
            return _called(work, allowed)
    except ChildLost as lost:
        note = lost.note
        said = printable(note.phase, 200), printable(note.detail, 400)
        raise ModelError(death_text(str(lost), *said)) from None
    except ChildFault as fault:
        raise ModelError(
            f"The model meets a fault of tvm_hetero ({printable(fault, 400)}). Please report it, "
            "with the model."
        ) from None


def _called(work: Callable[[], Sequence[Section]], allowed: ChildLimits) -> list[Section]:
    """Return what a child makes; one that dies in the midst of a graph searches for the node."""
    try:
        return call_in_fork(work, allowed)
    except ChildLost as lost:
        if lost.note.detail or not lost.note.phase:
            raise
    return call_in_fork(_with_search(work, allowed), allowed)


def _with_search(
    work: Callable[[], Sequence[Section]], allowed: ChildLimits
) -> Callable[[], Sequence[Section]]:
    """Return `work` with a search for the node that kills it."""
    tries = replace(allowed, step_seconds=allowed.step_seconds * _SEARCH_SHARE)

    def search() -> Sequence[Section]:
        with searching(tries):
            return work()

    return search


def _allowed(model: onnx.ModelProto, limits: OnnxLimits, draws: bool) -> ChildLimits:
    """Return the limits of a child, by what the file has brought."""
    given = sum(byte_size(t.data_type, math.prod(t.dims), what) for what, t in all_tensors(model))
    declared = min(_declared(model), limits.weight_bytes)
    # Constants without data are written out at last, as far as they may be (`made_bytes`).
    written = declared if draws else min(declared, limits.most_made)
    seconds = _STEP_SECONDS + _SECONDS_A_NODE * len(model.graph.node)
    return ChildLimits(
        memory=_MEMORY + _COPIES * given + _FEW_COPIES * written,
        step_seconds=seconds + (given + written) / _BYTES_A_SECOND,
        total_seconds=_TOTAL_SECONDS,
        answer=_MEMORY + 4 * (given + written),
    )


def _declared(model: onnx.ModelProto) -> int:
    """Return about how many bytes the constants without data have (``ConstantOfShape``)."""
    tensors = [(t.name, t) for t in model.graph.initializer]
    for node in model.graph.node:
        if node.op_type == "Constant" and node.output:
            tensors += [(node.output[0], a.t) for a in node.attribute if a.HasField("t")]
    shapes = {name: t for name, t in tensors if t.data_type == TensorProto.INT64}
    made = [n.input[0] for n in model.graph.node if n.op_type == "ConstantOfShape" and n.input]
    return sum(
        8 * math.prod(max(0, int(d)) for d in numpy_helper.to_array(shapes[name]).ravel()[:64])
        for name in made
        if name in shapes
    )
