"""The ``main`` of a decoder around a program that someone else's names and types are in."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass

import tvm
from tvm import relax

from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.huggingface.operators import take_row
from tvm_hetero.frontends.torch.cache_updates import dtype_of, shape_of, static_shape
from tvm_hetero.passes.attributes import INPUT_NAMES, MODEL_NAME, OUTPUT_NAMES, RANGES, STATES
from tvm_hetero.util.untrusted_names import identifier


@dataclass(frozen=True)
class Names:
    """What the caller calls things."""

    token: str
    position: str
    states: tuple[str, ...]
    logits: int
    model: str


def wrap_main(core: tvm.IRModule, names: Names, length: int) -> tvm.IRModule:
    """A ``main`` with the inputs of a decoder, around the program.

    Parameters
    ----------
    core
        The module of the program, its ``main``.
    names
        What its inputs and outputs are called.
    length
        Positions that there are.

    Raises
    ------
    ModelError
        If its logits are of neither one token nor all.
    """
    inner = core["main"]
    params = {param.name: param for param in inner.params}
    chunk = math.prod(static_shape(params[names.token]))
    token, position = (_input(n, [k]) for n, k in (("token", chunk), ("position", 1)))
    last = [_input("last", [1])] if chunk > 1 else []
    states = {n: relax.Var(identifier(n), params[n].ty) for n in names.states}
    vocabulary = shape_of(inner.ret_ty.fields[names.logits])[-1]
    limits = {names.token: vocabulary - 1, names.position: length - 1}

    kernels = {gv: func for gv, func in core.functions_items() if gv.name_hint != "main"}
    bb = relax.BlockBuilder(tvm.IRModule(kernels))
    program = bb.add_func(inner.without_attr("global_symbol"), "program")
    with bb.function("main", [token, position, *last, *states.values()]):
        given = {names.token: token, names.position: position}
        args = [
            states[n] if n in states else _converted(bb, given[n], param, limits[n])
            for n, param in params.items()
        ]
        outputs = bb.emit(relax.Call(program, args))
        item = bb.emit(relax.TupleGetItem(outputs, names.logits))
        rows = bb.emit(relax.op.reshape(item, [-1, vocabulary]))
        if static_shape(rows)[0] not in (1, chunk):
            raise ModelError(
                f"the logits are of {static_shape(rows)[0]} rows; expected 1, or {chunk}"
            )
        row = take_row(bb, rows, last[0]) if static_shape(rows)[0] > 1 else rows
        wide = dtype_of(row) == "float32"
        bb.emit_func_output(row if wide else bb.emit(relax.op.astype(row, "float32")))
    mod = relax.transform.InlinePrivateFunctions()(bb.get())
    ranges = {"token": [0, vocabulary - 1], "position": [0, length - 1]}
    ranges |= {"last": [0, chunk - 1]} if last else {}
    mod["main"] = mod["main"].with_attrs(
        {
            INPUT_NAMES: [*ranges, *names.states],
            OUTPUT_NAMES: ["logits"],
            MODEL_NAME: identifier(names.model),
            STATES: list(names.states),
            RANGES: json.dumps(ranges),
        }
    )
    return relax.transform.DeadCodeElimination(["main"])(mod)


def _converted(bb: relax.BlockBuilder, given: relax.Var, param: relax.Var, most: int) -> relax.Expr:
    """Our integers as the program wants them, within their range."""
    low, high = (relax.const(value, "int32") for value in (0, most))
    inside = bb.emit(relax.op.maximum(relax.op.minimum(given, high), low))
    cast = bb.emit(relax.op.astype(inside, dtype_of(param)))
    return bb.emit(relax.op.reshape(cast, static_shape(param)))


def _input(name: str, shape: Sequence[int]) -> relax.Var:
    return relax.Var(name, relax.TensorType(shape, "int32"))
