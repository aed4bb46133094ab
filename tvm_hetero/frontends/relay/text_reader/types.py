"""Types in a Relay text: tensors, scalars (``float32``) and tuples; functions are skipped."""

from __future__ import annotations

import re

from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.relay.core.limits import DEFAULT_LIMITS, RelayLimits
from tvm_hetero.frontends.relay.core.program import RelayTensorType, TupleType, Type
from tvm_hetero.frontends.relay.core.tensor_types import tensor_type
from tvm_hetero.util.untrusted_names import printable

_TENSOR = re.compile(r"Tensor\[\(([^()\[\]]*)\),\s*([A-Za-z0-9_]+)\]")
_SCALAR = re.compile(r"(?:bool|b?float\d+|u?int\d+)\b")
_DEPTH = 20


def parse_type(text: str, where: str, limits: RelayLimits = DEFAULT_LIMITS) -> Type | None:
    """Return the type that a whole text is; None for those that say nothing (functions, holes).

    Raises
    ------
    ModelError
        It is no type.
    """
    kind, end = read_type(text, 0, where, limits)
    if kind is not None and text[end:].strip():
        raise ModelError(f"{where}: '{printable(text)}' is no type")
    return kind


def read_type(
    text: str, at: int, where: str, limits: RelayLimits = DEFAULT_LIMITS, depth: int = 0
) -> tuple[Type | None, int]:
    """Return the type that begins at a place, and where it ends."""
    while text[at : at + 1].isspace():
        at += 1
    if match := _TENSOR.match(text, at):
        dims = [_dim(d, where) for d in match[1].split(",") if d.strip()]
        return tensor_type(dims, match[2], where, limits), match.end()
    if match := _SCALAR.match(text, at):
        return RelayTensorType((), match.group()), match.end()
    if text.startswith("(", at) and depth < _DEPTH:
        return _tuple(text, at + 1, where, limits, depth)
    return None, at


def _tuple(text: str, at: int, where: str, limits: RelayLimits, depth: int) -> tuple[Type, int]:
    fields: list[Type | None] = []
    while True:
        while text[at : at + 1].isspace() or text[at : at + 1] == ",":
            at += 1
        if text[at : at + 1] == ")":
            return TupleType(tuple(fields)), at + 1
        kind, end = read_type(text, at, where, limits, depth + 1)
        if end == at or len(fields) > 10_000:
            raise ModelError(f"{where}: '{printable(text[at : at + 40])}' is no type")
        fields.append(kind)
        at = end


def _dim(text: str, where: str) -> int | None:
    word = text.strip()
    if word in ("?", "Any", "any"):
        return None
    match = re.fullmatch(r"(\d{1,18})(?:i\d+)?", word)
    if match is None:
        raise ModelError(f"{where}: a dimension is '{printable(word)}', expected a number")
    return int(match[1])
