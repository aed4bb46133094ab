"""Everything in a saved program that cannot be imported, all at once, each with its place.

An operator that cannot be taken is stood in for by zeros of the type that the file gives it, so
that what comes after it is looked at too; what has no type in the file ends the look-out there.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from tvm import relax

from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.relay.core.arrays import dtype_of
from tvm_hetero.frontends.relay.core.limits import DEFAULT_LIMITS, RelayLimits
from tvm_hetero.frontends.relay.core.program import (
    Expr,
    GlobalName,
    Operator,
    RelayCall,
    RelayProgram,
    RelayTensorType,
    TupleType,
    Unsupported,
)
from tvm_hetero.frontends.relay.devices import ANNOTATIONS
from tvm_hetero.frontends.relay.emit import ELSEWHERE, RelayEmitter
from tvm_hetero.frontends.relay.flat_values import FlatStep
from tvm_hetero.frontends.relay.flatten import Flat, flatten
from tvm_hetero.frontends.relay.importer import by_name, make_identifiers, relax_type
from tvm_hetero.frontends.relay.json_reader.free_variables import expressions
from tvm_hetero.frontends.relay.operator_table import TABLE
from tvm_hetero.frontends.relay.read import read
from tvm_hetero.util.untrusted_names import printable


@dataclass(frozen=True)
class RelayReport:
    """How often each operator occurs in a program, and what stands in its way."""

    operators: dict[str, int]
    problems: tuple[str, ...]


def relay_check(
    path_or_text: str | os.PathLike[str], *, limits: RelayLimits = DEFAULT_LIMITS
) -> RelayReport:
    """Say what of a saved Relay program cannot be imported.

    Raises
    ------
    ModelError
        The file is no program at all.
    """
    program, _ = read(path_or_text, limits)
    found = _reached(program)
    control = [
        f"{e.where}: '{printable(e.name)}' is not supported" for e in found
        if isinstance(e, Unsupported)
    ]  # fmt: skip
    if control:  # then nothing can be emitted, but names can be looked up
        control += [problem for e in found if (problem := _unknown(e))]
    counts: dict[str, int] = {}
    for call in found:
        if isinstance(call, RelayCall) and isinstance(call.callee, Operator):
            counts[call.callee.name] = counts.get(call.callee.name, 0) + 1
    ordered = dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
    return RelayReport(ordered, tuple(control or _problems(program, limits)))


def _reached(program: RelayProgram) -> list[Expr]:
    """Every expression of ``main`` and of the functions that it calls, however indirectly."""
    found: list[Expr] = []
    names, seen = ["main"], {"main"}
    while names:
        within = expressions(program.functions[names.pop()].body)
        found += within
        called = {e.name for e in within if isinstance(e, GlobalName)} - seen
        names += sorted(called & program.functions.keys())
        seen |= called
    return found


def _unknown(expr: Expr) -> str | None:
    """What is wrong with a call of an operator that is not in the table."""
    if not isinstance(expr, RelayCall) or not isinstance(expr.callee, Operator):
        return None
    name = expr.callee.name
    if name in TABLE or name in ANNOTATIONS:
        return None
    return f"{expr.where}: operator '{printable(name)}' is not supported"


def _problems(program: RelayProgram, limits: RelayLimits) -> list[str]:
    try:
        flat = flatten(program, limits)
    except ModelError as error:
        return [str(error)]
    builder = relax.BlockBuilder()
    emitter = RelayEmitter(builder, flat, program.version)
    try:
        by_name(flat.inputs)
        kinds = [relax_type(each.var) for each in flat.inputs]
    except ModelError as error:
        return [str(error)]
    names = make_identifiers(each.var.name for each in flat.inputs)
    variables = [relax.Var(n, kind) for n, kind in zip(names, kinds, strict=True)]
    emitter.bind({}, dict(zip(flat.inputs, variables, strict=True)))
    with builder.function("main", variables):
        with builder.dataflow():
            problems = _emitted(emitter, flat)
            result = builder.emit_output(relax.op.zeros((1,), "float32"))
        builder.emit_func_output(result)
    return problems


def _emitted(emitter: RelayEmitter, flat: Flat) -> list[str]:
    """Emit each operator; what cannot be emitted is noted and stood in for."""
    problems: dict[str, None] = {}
    for step in flat.steps:
        if not emitter.ready(step):
            if step.operator not in TABLE:
                where = f"{step.where}: operator '{printable(step.operator)}'"
                problems[f"{where} is not supported"] = None
            continue
        try:
            emitter.emit(step)
        except ModelError as error:
            problems[str(error).removesuffix(ELSEWHERE)] = None
            stand_in = _stand_in(step)
            if stand_in is not None:
                emitter.known[id(step)] = stand_in
    for claim in flat.claims:
        try:
            emitter.compare(claim)
        except ModelError as error:
            problems[str(error)] = None
    return list(problems)


def _stand_in(step: FlatStep) -> relax.Expr | list[relax.Expr] | None:
    if isinstance(step.type, TupleType):
        fields = [_zeros(kind) for kind in step.type.fields]
        return None if any(f is None for f in fields) else fields
    return _zeros(step.type)


def _zeros(kind: object) -> relax.Expr | None:
    if not isinstance(kind, RelayTensorType) or None in kind.shape:
        return None
    try:
        dtype_of(kind.dtype)
    except ModelError:  # whose makers are told of
        return None
    return relax.BlockBuilder().normalize(relax.op.zeros(kind.shape, kind.dtype))
