"""From a Relay program that an old TVM saved to a Relax module of this TVM.

1. read        `graph_file` and `from_graph`, or `text_reader.parser`: a `RelayProgram`, plain data
2. flatten     functions, lets, tuples and annotations are resolved: a list of operators
3. emit        each operator by its rule (`operator_table`), its result checked against the types
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

import tvm
from tvm import relax

from tvm_hetero.errors import HeteroError, ModelError, UsageError
from tvm_hetero.frontends.relay.core.arrays import dtype_of, load_params
from tvm_hetero.frontends.relay.core.limits import DEFAULT_LIMITS, RelayLimits
from tvm_hetero.frontends.relay.core.program import RelayProgram, RelayTensorType, Var
from tvm_hetero.frontends.relay.emit import RelayEmitter
from tvm_hetero.frontends.relay.flat_values import Input
from tvm_hetero.frontends.relay.flatten import flatten
from tvm_hetero.frontends.relay.read import parse, read
from tvm_hetero.passes.attributes import INPUT_NAMES, MODEL_NAME, OUTPUT_NAMES, WISHES
from tvm_hetero.passes.pins import wishes_text
from tvm_hetero.util.nearest import nearest
from tvm_hetero.util.tvm_state import one_thread
from tvm_hetero.util.untrusted_names import identifier, printable

# Names that an unknown one is compared with: a millisecond goes to some dozens.
_MOST_COMPARED = 2000

Params = Mapping[str, Any] | str | os.PathLike[str] | bytes


@one_thread
def from_json(
    path_or_text: str | os.PathLike[str],
    params: Params | None = None,
    *,
    limits: RelayLimits = DEFAULT_LIMITS,
) -> tvm.IRModule:
    """Import a Relay module that ``tvm.ir.save_json`` of an old TVM wrote.

    Parameters
    ----------
    path_or_text : path or str
        A file, or the JSON itself. (A file with the text of a module is read too.)
    params : mapping of str to array, path or bytes, optional
        Values of parameters of ``main``, which become constants: arrays by name, or a ``.params``
        file (``relay.save_param_dict``). Parameters without a value stay inputs.
    limits : Limits
        Caps on sizes and counts.

    Returns
    -------
    tvm.IRModule
        One function, ``main``, of static shapes, with the attributes of every front end
        (``hetero_input_names``, ``hetero_output_names``, ``hetero_model_name``).

    Raises
    ------
    ModelError
        The file is damaged or too large, or an operator or attribute is not supported; the text
        says where.
    UsageError
        A parameter's value does not fit, or there is no parameter of that name.
    """
    program, name = read(path_or_text, limits)
    return import_program(program, name, params, limits)


@one_thread
def from_text(
    path_or_text: str | os.PathLike[str],
    params: Params | None = None,
    *,
    limits: RelayLimits = DEFAULT_LIMITS,
) -> tvm.IRModule:
    """Import a Relay module in text, as ``mod.astext()`` of an old TVM gave it.

    Constants other than numbers are in the metadata at its end: ``mod.astext(show_meta_data=
    True)``. See `from_json` for arguments, result and errors.
    """
    if isinstance(path_or_text, str) and "\n" in path_or_text:
        return import_program(parse(path_or_text, "the text", limits), "model", params, limits)
    return from_json(path_or_text, params, limits=limits)


def import_program(
    program: RelayProgram,
    name: str = "model",
    params: Params | None = None,
    limits: RelayLimits = DEFAULT_LIMITS,
) -> tvm.IRModule:
    """Return the Relax module of a program."""
    flat = flatten(program, limits)
    if flat.unheeded:
        warnings.warn(_unheeded(flat.unheeded), stacklevel=3)
    values = _values(params, [i.var for i in flat.inputs], limits)
    builder = relax.BlockBuilder()
    emitter = RelayEmitter(builder, flat, program.version)
    inputs = [i for i in by_name(flat.inputs) if i.var.name not in values]
    variables = [
        relax.Var(unique, relax_type(each.var))
        for unique, each in zip(make_identifiers(i.var.name for i in inputs), inputs, strict=True)
    ]
    named = {i.var.name: variable for i, variable in zip(inputs, variables, strict=True)}
    emitter.bind(values, {i: named[i.var.name] for i in flat.inputs if i.var.name in named})
    failed: HeteroError | None = None
    with builder.function("main", variables):
        with builder.dataflow():
            try:
                result = emitter.run()
            except HeteroError as error:  # a builder that is left halfway complains by itself
                failed, result = error, relax.op.zeros((1,), "float32")
            result = builder.emit_output(result)
        builder.emit_func_output(result)
    if failed is not None:
        raise failed
    module = builder.get()
    attributes: dict[str, Any] = {
        INPUT_NAMES: [i.var.name for i in inputs],
        OUTPUT_NAMES: emitter.output_names,
        MODEL_NAME: identifier(name or "model"),
    }
    if emitter.wishes:
        wanted = {name: (d.kind, d.index) for name, d in emitter.wishes.items()}
        attributes[WISHES] = wishes_text(wanted)
    module["main"] = module["main"].with_attrs(attributes)
    return module


def _unheeded(places: list[str]) -> str:
    """The warning that devices are named for those who read a value, not for who makes it."""
    listed = "; ".join(printable(place, 200) for place in places[:3])
    more = f" and {len(places) - 3} more" if len(places) > 3 else ""
    return (
        f"the program names devices for operators that read a value ({listed}{more}), which are "
        "not taken over: annotate what is to run there itself, on_device(x, device)"
    )


def make_identifiers(names: Iterable[str]) -> list[str]:
    """An identifier for each name, no two alike, as `identifier` makes them one by one."""
    counts: dict[str, int] = {}
    used: dict[str, None] = {}
    for name in names:
        base = result = identifier(name)
        count = counts.get(base, 0)
        while result in used:
            count += 1
            result = f"{base}_{count}"
        counts[base] = count
        used[result] = None
    return list(used)


def by_name(inputs: list[Input]) -> list[Input]:
    """The first of the inputs of each name: what is given by name is for all of that name.

    `relay.testing.lstm` unrolled has a parameter ``data`` for each step.

    Raises
    ------
    ModelError
        Two of one name have unlike types.
    """
    found: dict[str, Input] = {}
    for each in inputs:
        first = found.setdefault(each.var.name, each)
        if first.var.type != each.var.type:
            raise ModelError(
                f"two parameters are called '{printable(each.var.name)}', one {first.var.type}, "
                f"one {each.var.type}: what is given by that name cannot be both"
            )
    return list(found.values())


def relax_type(var: Var) -> relax.TensorType:
    """The Relax type of a parameter.

    Raises
    ------
    ModelError
        It is no tensor, or its shape is open.
    """
    if not isinstance(var.type, RelayTensorType):
        raise ModelError(
            f"parameter '{printable(var.name)}' is of type {var.type or 'unknown'}, expected a "
            "tensor; run relay.transform.InferType before saving"
        )
    if None in var.type.shape:
        raise ModelError(
            f"parameter '{printable(var.name)}' is {var.type}: its shape is open; save the "
            "module with fixed shapes (relay.transform.DynamicToStatic)"
        )
    dtype_of(var.type.dtype)
    return relax.TensorType(var.type.shape, var.type.dtype)


def _values(params: Params | None, inputs: list[Var], limits: RelayLimits) -> dict[str, Any]:
    """The values of parameters, each checked against what the program declares."""
    if params is None:
        return {}
    given = params if isinstance(params, Mapping) else load_params(params, limits)
    known = {var.name: var for var in inputs}
    found = {}
    for name, value in given.items():
        if name not in known:
            raise UsageError(
                f"'{printable(name)}' is no parameter of the program"
                f"{nearest(name, islice(known, _MOST_COMPARED))}"
            )
        found[name] = _checked(known[name], value)
    return found


def _checked(var: Var, value: Any) -> Any:
    import numpy as np

    array = value.numpy() if hasattr(value, "numpy") else np.asarray(value)
    declared = var.type
    if not isinstance(declared, RelayTensorType):
        return array
    fits = len(array.shape) == len(declared.shape) and all(
        d is None or n == d for n, d in zip(array.shape, declared.shape, strict=True)
    )
    if not fits or array.dtype != dtype_of(declared.dtype):
        raise UsageError(
            f"parameter '{printable(var.name)}' is {declared} in the program, but its value is "
            f"{list(array.shape)} of {array.dtype}"
        )
    return array
