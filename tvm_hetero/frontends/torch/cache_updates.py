"""How an exported program updates its caches, and the kernels that do it in place instead.

Analysis first: for each cache the one node of torch's graph that updates it (`find_update`). Then
TVM imports the graph, and where it comes to these nodes it is given our kernels (`import_program`).
"""

from __future__ import annotations

import contextlib
import io
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relax, tirx

from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.torch.float16_products import product_converters
from tvm_hetero.kernels.attention.cache_updates import update_rows, update_where
from tvm_hetero.kernels.attention.kernel import attend
from tvm_hetero.util.untrusted_names import printable

_ROWS, _WHERE = "index_put.default", "where.self"
# `attention_op.attend`, and before which of its arguments the caches are: item 1 is argument 4.
_ATTEND, _CACHES = "attend.default", 3
_COPIES = ("clone.default", "alias.default", "detach.default")


@dataclass(frozen=True)
class Update:
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


def find_update(state: Any, outputs: Sequence[Any], name: str, at: int) -> Update:
    """What updates a state.

    Parameters
    ----------
    state
        The node of the input.
    outputs
        The nodes that the program gives.
    name, at
        The state's name, and which output it is afterwards.

    Raises
    ------
    ModelError
        If something else reads it too, or updates it otherwise.
    """
    node, read = outputs[at], state
    readers = list(read.users)
    while len(readers) == 1 and _name_of(readers[0]) in _COPIES:
        (read,) = readers
        readers = list(read.users)
    if _name_of(node) == "getitem" and _name_of(node.args[0]) == _ATTEND:
        base, item = node.args
        if readers == [base] and base.args.index(read) == _CACHES + item and len(node.users) == 1:
            return Update(state, base, _CACHES + item, None)
    elif readers == [node] and _name_of(node) in (_ROWS, _WHERE):
        axis = _axis(name, node) if _name_of(node) == _ROWS else None
        return Update(state, node, list(node.args).index(read), axis)
    raise ModelError(
        f"the state '{name}' is read by {', '.join(map(_name_of, readers)) or 'nothing'}, and "
        f"output {at} is what {_name_of(node)} gives; expected one operation that reads the "
        "state and gives what it is afterwards: index_copy, index_put along one axis, where, or "
        "tvm_hetero.frontends.torch.attention_op.attend"
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


def import_program(program: Any, updates: Sequence[Update]) -> tvm.IRModule:
    """The program in Relax, with kernels that update states in place.

    Raises
    ------
    ModelError
        If TVM cannot import it.
    """
    from tvm.relax.frontend.torch import from_exported_program

    found: dict[str, list[Update]] = {}
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
        **product_converters(),
        _ROWS: converter("_index_put"), _WHERE: converter("_where"), _ATTEND: attention,
    }  # fmt: skip
    try:
        with silence_output():
            return from_exported_program(
                program, run_ep_decomposition=False, custom_convert_map=kinds
            )
    except ModelError:
        raise
    except Exception as error:
        lines = [line for line in str(error).splitlines() if line.strip()]
        raise ModelError(
            "TVM's importer of torch.export fails: "
            f"{printable(lines[-1] if lines else error, 300)}. Write what "
            "it names with other operators, or export the model as ONNX"
        ) from error


def _emit(update: Update, importer: Any) -> relax.Expr:
    """The kernel that updates a state in place, and gives what it is afterwards."""
    bb, args = importer.block_builder, importer.retrieve_args(update.node)
    cache = importer.env[update.state]
    shape, dtype = static_shape(cache), dtype_of(cache)
    if update.axis is None:
        mask, source = args[0], args[3 - update.place]
        sizes = static_shape(mask), static_shape(source)
        kernel = update_where(shape, *sizes, dtype, kept=update.place == 1)
        given = [cache, mask, source]
    else:
        rows = math.prod(static_shape(args[1][-1]))
        whole = [*shape[: update.axis], rows, *shape[update.axis + 1 :]]
        index = bb.emit(relax.op.reshape(args[1][-1], [rows]))
        source = bb.emit(relax.op.broadcast_to(args[2], whole))
        kernel = update_rows(shape, update.axis, rows, dtype, dtype_of(index))
        given = [cache, index, source]
    return _called(bb, kernel, "update", given, relax.TensorType(shape, dtype))


def _emit_attention(node: Any, importer: Any) -> list[relax.Expr]:
    """`attention_op.attend` as the kernel that keeps its caches, and these caches."""
    bb = importer.block_builder
    q, k, v, position, keys, values, scale = importer.retrieve_args(node)
    tokens, heads, size = static_shape(q)
    kv_heads, length, _ = static_shape(keys)
    wide = [bb.emit(relax.op.astype(x, "float32")) for x in (q, k, v)]
    rows = [bb.emit(relax.op.reshape(x, [tokens, -1])) for x in wide]
    place = bb.emit(relax.op.astype(relax.op.reshape(position, [1]), "int32"))
    kernel = attend(heads, kv_heads, size, length, tokens, float(scale), dtype=dtype_of(keys))
    result = relax.TensorType([tokens, heads * size], "float32")
    found = _called(bb, kernel, "attention", [*rows, place, keys, values], result)
    shaped = bb.emit(relax.op.reshape(found, [tokens, heads, size]))
    return [bb.emit(relax.op.astype(shaped, dtype_of(q))), keys, values]


def _called(
    bb: relax.BlockBuilder, kernel: tirx.PrimFunc, name: str, args: list[relax.Expr], ty: Any
) -> relax.Expr:
    return bb.emit(relax.call_tir(bb.add_func(kernel, name), relax.Tuple(args), ty))


def static_shape(value: relax.Expr) -> list[int]:
    """The shape of a tensor."""
    return shape_of(value.ty)


def shape_of(ty: relax.TensorType) -> list[int]:
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


def dtype_of(value: relax.Expr) -> str:
    """The type of a tensor's numbers."""
    return str(value.ty.dtype)


@contextlib.contextmanager
def silence_output() -> Iterator[None]:
    """Keep what torch and TVM print and warn to ourselves: errors say what matters."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        yield
