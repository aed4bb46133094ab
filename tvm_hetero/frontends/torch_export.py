"""Any decoder that ``torch.export`` can write down, with its caches as inputs and outputs.

The program is a step or a chunk of a prompt of one sequence: it takes the token, its position and
the caches, and gives the logits and what the caches are afterwards. The caller says which output is
which cache's; the caches become states (`tvm_hetero.passes.states`), which are written in place.

What it cannot do
    The update of a cache must be one operation on the cache itself, and the only one that reads it:
    rows written along one axis (``index_copy``, ``index_put``, ``cache[:, :, rows] = k``),
    ``where``, or attention as a whole (`torch_attention.attend`). But for the last of them,
    whatever then reads the cache reads a copy (`tvm_hetero.kernels.updates`), which costs a step
    the reading and writing of each cache once more. Shapes are fixed; programs with branches that
    hang on data are refused, as are operators that TVM does not import. A program that gives the
    logits of all rows of a chunk computes the head for all of them.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import tvm
from tvm import relax, tirx

from tvm_hetero.errors import ModelError, UsageError
from tvm_hetero.frontends.huggingface.operators import pick
from tvm_hetero.frontends.onnx.names import identifier, nearest, printable
from tvm_hetero.kernels.attention import attend
from tvm_hetero.kernels.updates import update_rows, update_where
from tvm_hetero.passes.dataflow import INPUT_NAMES, OUTPUT_NAMES
from tvm_hetero.passes.states import RANGES, STATES

if TYPE_CHECKING:
    import torch

MODEL_NAME = "hetero_model_name"
_ROWS, _WHERE = "index_put.default", "where.self"
# `torch_attention.attend`, and before which of its arguments the caches are: item 1 is argument 4.
_ATTEND, _CACHES = "attend.default", 3
_COPIES = ("clone.default", "alias.default", "detach.default")


@dataclass(frozen=True)
class _Update:
    """How a state is updated: by which node, and which of its arguments the state is.

    Attributes
    ----------
    state, node : of the program's graph.
    place : among the node's arguments.
    axis : along which rows are written, None where a mask says what is.
    """

    state: Any
    node: Any
    place: int
    axis: int | None


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
        The inputs for the tokens and for the position of the first of them, of whole numbers.
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
    updates = [_update(inputs[state], outputs, state, at) for state, at in states.items()]
    core = _import(program, updates)
    rooms = [u.state.meta["val"].shape[u.axis] for u in updates if u.axis is not None]
    room = length if length is not None else min((int(r) for r in rooms), default=0)
    if room < 1:
        raise UsageError("length is not given, and no cache is written by rows; give length=")
    return _wrapped(core, _Names(token, position, tuple(states), logits, name), room)


@dataclass(frozen=True)
class _Names:
    """What the caller calls things."""

    token: str
    position: str
    states: tuple[str, ...]
    logits: int
    model: str


def _decomposed(program: Any) -> Any:
    try:
        with _quiet():
            return program.run_decompositions()
    except Exception as error:
        raise ModelError(
            f"torch cannot decompose the program: {printable(error, 300)}. Export a model that is "
            "not being trained: model.eval().requires_grad_(False)"
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
            raise UsageError(f"the program has no input '{name}'; {nearest(name, inputs)}")
    left = sorted(set(inputs) - set(wanted))
    if left or len(set(wanted)) < len(wanted):
        odd = left[0] if left else max(wanted, key=list(wanted).count)
        raise UsageError(
            f"the input '{odd}' of the program is {'none' if left else 'several'} of token, "
            "position and states; expected each input to be one of them"
        )


def _update(state: Any, outputs: Sequence[Any], name: str, at: int) -> _Update:
    """What updates a state."""
    node, read = outputs[at], state
    readers = list(read.users)
    while len(readers) == 1 and _name_of(readers[0]) in _COPIES:
        (read,) = readers
        readers = list(read.users)
    if _name_of(node) == "getitem" and _name_of(node.args[0]) == _ATTEND:
        base, item = node.args
        if readers == [base] and base.args.index(read) == _CACHES + item and len(node.users) == 1:
            return _Update(state, base, _CACHES + item, None)
    elif readers == [node] and _name_of(node) in (_ROWS, _WHERE):
        axis = _axis(name, node) if _name_of(node) == _ROWS else None
        return _Update(state, node, list(node.args).index(read), axis)
    raise ModelError(
        f"the state '{name}' is read by {', '.join(map(_name_of, readers)) or 'nothing'}, and "
        f"output {at} is what {_name_of(node)} gives; expected one operation that reads the "
        "state and gives what it is afterwards: index_copy, index_put along one axis, where, or "
        "tvm_hetero.frontends.torch_attention.attend"
    )


def _axis(name: str, node: Any) -> int:
    """Along which axis an index_put replaces rows."""
    *others, _ = node.args[1]
    adds = len(node.args) > 3 and bool(node.args[3])
    if adds or any(index is not None for index in others):
        raise ModelError(
            f"the state '{name}' is updated by index_put with several indices, or by adding; "
            "expected rows that are replaced along one axis"
        )
    return len(others)


def _name_of(node: Any) -> str:
    return str(getattr(node.target, "__name__", node.target))


def _import(program: Any, updates: Sequence[_Update]) -> tvm.IRModule:
    """The program in Relax, with kernels that update states in place."""
    from tvm.relax.frontend.torch import from_exported_program

    found: dict[str, list[_Update]] = {}
    for update in updates:
        found.setdefault(update.node.name, []).append(update)

    def converter(fallback: str) -> Callable[[Any, Any], relax.Expr]:
        def convert(node: Any, importer: Any) -> relax.Expr:
            if node.name not in found:
                return getattr(importer, fallback)(node)
            return _emit(found[node.name][0], importer)

        return convert

    def attention(node: Any, importer: Any) -> list[relax.Expr]:
        if len(found.get(node.name, [])) != 2:
            raise ModelError("attend() has caches that are no states; name all caches in states=")
        return _emit_attention(node, importer)

    kinds = {
        _ROWS: converter("_index_put"), _WHERE: converter("_where"), _ATTEND: attention,
    }  # fmt: skip
    try:
        with _quiet():
            return from_exported_program(
                program, run_ep_decomposition=False, custom_convert_map=kinds
            )
    except ModelError:
        raise
    except Exception as error:
        lines = [line for line in str(error).splitlines() if line.strip()]
        raise ModelError(
            f"TVM cannot import the program: {printable(lines[-1] if lines else error, 300)}"
        ) from error


def _emit(update: _Update, importer: Any) -> relax.Expr:
    """The kernel that updates a state in place, and gives what it is afterwards."""
    bb, args = importer.block_builder, importer.retrieve_args(update.node)
    cache = importer.env[update.state]
    shape, dtype = _extents(cache), _dtype(cache)
    if update.axis is None:
        mask, source = args[0], args[3 - update.place]
        sizes = _extents(mask), _extents(source)
        kernel = update_where(shape, *sizes, dtype, kept=update.place == 1)
        given = [cache, mask, source]
    else:
        rows = math.prod(_extents(args[1][-1]))
        whole = [*shape[: update.axis], rows, *shape[update.axis + 1 :]]
        index = bb.emit(relax.op.reshape(args[1][-1], [rows]))
        source = bb.emit(relax.op.broadcast_to(args[2], whole))
        kernel = update_rows(shape, update.axis, rows, dtype, _dtype(index))
        given = [cache, index, source]
    return _called(bb, kernel, "update", given, relax.TensorType(shape, dtype))


def _emit_attention(node: Any, importer: Any) -> list[relax.Expr]:
    """`torch_attention.attend` as the kernel that keeps its caches, and these caches."""
    bb = importer.block_builder
    q, k, v, position, keys, values, scale = importer.retrieve_args(node)
    tokens, heads, size = _extents(q)
    kv_heads, length, _ = _extents(keys)
    rows = [bb.emit(relax.op.reshape(x, [tokens, -1])) for x in (q, k, v)]
    place = bb.emit(relax.op.astype(relax.op.reshape(position, [1]), "int32"))
    kernel = attend(heads, kv_heads, size, length, tokens, float(scale), dtype=_dtype(keys))
    result = relax.TensorType([tokens, heads * size], "float32")
    found = _called(bb, kernel, "attention", [*rows, place, keys, values], result)
    return [bb.emit(relax.op.reshape(found, [tokens, heads, size])), keys, values]


def _called(
    bb: relax.BlockBuilder, kernel: tirx.PrimFunc, name: str, args: list[relax.Expr], ty: Any
) -> relax.Expr:
    return bb.emit(relax.call_tir(bb.add_func(kernel, name), relax.Tuple(args), ty))


def _wrapped(core: tvm.IRModule, names: _Names, length: int) -> tvm.IRModule:
    """A ``main`` with the inputs of a decoder, around the program."""
    inner = core["main"]
    params = {param.name: param for param in inner.params}
    chunk = math.prod(_extents(params[names.token]))
    token, position = (_input(n, [k]) for n, k in (("token", chunk), ("position", 1)))
    last = [_input("last", [1])] if chunk > 1 else []
    states = {n: relax.Var(identifier(n), params[n].ty) for n in names.states}
    vocabulary = _shape(inner.ret_ty.fields[names.logits])[-1]
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
        if _extents(rows)[0] not in (1, chunk):
            raise ModelError(f"the logits are of {_extents(rows)[0]} rows; expected 1, or {chunk}")
        bb.emit_func_output(pick(bb, rows, last[0]) if _extents(rows)[0] > 1 else rows)
    ranges = {"token": [0, vocabulary - 1], "position": [0, length - 1]}
    ranges |= {"last": [0, chunk - 1]} if last else {}
    attributes = {
        INPUT_NAMES: ["token", "position", *(["last"] if last else []), *names.states],
        OUTPUT_NAMES: ["logits"],
        MODEL_NAME: identifier(names.model),
        STATES: list(names.states),
        RANGES: json.dumps(ranges),
    }
    mod = relax.transform.InlinePrivateFunctions()(bb.get())
    mod["main"] = mod["main"].with_attrs(attributes)
    return relax.transform.DeadCodeElimination(["main"])(mod)


def _converted(bb: relax.BlockBuilder, given: relax.Var, param: relax.Var, most: int) -> relax.Expr:
    """Our whole numbers as the program wants them, within their range."""
    low, high = (relax.const(value, "int32") for value in (0, most))
    inside = bb.emit(relax.op.maximum(relax.op.minimum(given, high), low))
    cast = bb.emit(relax.op.astype(inside, _dtype(param)))
    return bb.emit(relax.op.reshape(cast, _extents(param)))


def _input(name: str, shape: Sequence[int]) -> relax.Var:
    return relax.Var(name, relax.TensorType(shape, "int32"))


def _extents(value: relax.Expr) -> list[int]:
    """The shape of a tensor."""
    return _shape(value.ty)


def _shape(ty: relax.TensorType) -> list[int]:
    """The shape in a type.

    Raises
    ------
    ModelError
        If it is not fixed.
    """
    shape = list(ty.shape)
    if not all(isinstance(extent, int | tvm.tirx.IntImm) for extent in shape):
        raise ModelError(
            f"a tensor of the program is of shape {printable(shape)}; expected fixed shapes: "
            "export without dynamic_shapes"
        )
    return [int(extent) for extent in shape]


def _dtype(value: relax.Expr) -> str:
    return str(value.ty.dtype)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep what torch and TVM print and warn to ourselves: errors say what matters."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        yield
