"""Any decoder that ``torch.export`` can write down, with its caches as inputs and outputs.

The program is a step or a chunk of a prompt of one sequence: it takes the token, its position and
the caches, and gives the logits and what the caches are afterwards. The caller says which output is
which cache's; the caches become states (`tvm_hetero.passes.states`), which are written in place.

What it cannot do
    The update of a cache must be one operation on the cache itself, and the only one that reads it:
    rows written along one axis (``index_copy``, ``index_put``, ``cache[:, :, rows] = k``),
    ``where``, or attention as a whole (`attention_op.attend`). But for the last of them,
    whatever then reads the cache reads a copy (`tvm_hetero.kernels.attention.cache_updates`), which
    costs a step the reading and writing of each cache once more. Shapes are fixed; programs with
    branches that depend on data are refused, as are operators that TVM does not import. A program
    that gives the logits of all rows of a chunk computes the head for all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import tvm

from tvm_hetero.errors import ModelError, UsageError
from tvm_hetero.frontends.torch.cache_updates import find_update, import_program, silence_output
from tvm_hetero.frontends.torch.wrap_main import Names, wrap_main
from tvm_hetero.util.nearest import nearest
from tvm_hetero.util.tvm_state import one_thread
from tvm_hetero.util.untrusted_names import printable

if TYPE_CHECKING:
    import torch


@one_thread
def from_exported(
    program: torch.export.ExportedProgram,
    *,
    states: Mapping[str, int],
    token: str = "token",
    position: str = "position",
    logits: int = 0,
    length: int | None = None,
    name: str = "model",
) -> tvm.IRModule:
    """Import an exported decoder.

    Parameters
    ----------
    program
        Of one sequence, with fixed shapes, exported from a model that is not being trained.
    states
        Of each input that is a cache (by the name that it has in the program: tensors of a list
        ``caches`` are ``caches_0``, ``caches_1``, ...): which output it is afterwards, counted
        among all tensors that the program gives.
    token, position
        The inputs for the tokens and for the position of the first of them, of integers.
    logits
        Which output has the logits: of one token, or of all.
    length
        Positions that the caches have room for; by default the extent of the axis that is written.
    name
        Of the model.

    Returns
    -------
    tvm.IRModule
        As `from_huggingface` gives it, but for the names and shapes of the states, which are those
        of the program.

    Raises
    ------
    ModelError
        The program is none of these.
    UsageError
        An argument does not fit the program.
    """
    signature = program.graph_signature
    _check_names(list(signature.user_inputs), [token, position, *states])
    _check_places(len(signature.user_outputs), {"logits": logits, **states})
    program = _decomposed(program)
    inputs, outputs = _inputs(program), _outputs(program)
    updates = [find_update(inputs[state], outputs, state, at) for state, at in states.items()]
    core = import_program(program, updates)
    rooms = [u.state.meta["val"].shape[u.axis] for u in updates if u.axis is not None]
    room = length if length is not None else min((int(r) for r in rooms), default=0)
    if room < 1:
        raise UsageError("length is not given, and no cache is written by rows; give length=")
    return wrap_main(core, Names(token, position, tuple(states), logits, name), room)


def _decomposed(program: Any) -> Any:
    try:
        with silence_output():
            return program.run_decompositions()
    except Exception as error:
        raise ModelError(
            f"torch cannot decompose the program: {printable(error, 300)}. If the model is being "
            "trained, export it with model.eval().requires_grad_(False); else torch itself fails, "
            "and another version of it may not"
        ) from error


def _inputs(program: Any) -> dict[str, Any]:
    """The program's own inputs (not its weights) by name."""
    names = set(program.graph_signature.user_inputs)
    return {n.name: n for n in program.graph.nodes if n.op == "placeholder" and n.name in names}


def _outputs(program: Any) -> list[Any]:
    """The nodes that the program gives, in order."""
    (result,) = program.graph.find_nodes(op="output")
    mutated = len(program.graph_signature.output_specs) - len(program.graph_signature.user_outputs)
    if mutated:
        raise ModelError(
            f"the program changes {mutated} of its own buffers; expected caches as inputs and "
            "outputs: give them to forward(), and return what they are afterwards"
        )
    return list(result.args[0])


def _check_places(count: int, places: Mapping[str, int]) -> None:
    for name, at in places.items():
        if not 0 <= at < count:
            raise UsageError(f"'{name}' is output {at}; expected 0 to {count - 1}")
    if len(set(places.values())) < len(places):
        raise UsageError(
            f"the outputs {list(places.values())} of logits and states are not distinct"
        )


def _check_names(inputs: Sequence[str], wanted: Sequence[str]) -> None:
    for name in wanted:
        if name not in inputs:
            raise UsageError(f"the program has no input '{name}'{nearest(name, inputs)}")
    left = sorted(set(inputs) - set(wanted))
    if left or len(set(wanted)) < len(wanted):
        odd = left[0] if left else max(wanted, key=list(wanted).count)
        raise UsageError(
            f"the input '{odd}' of the program is {'none' if left else 'several'} of token, "
            "position and states; expected each input to be one of them"
        )
