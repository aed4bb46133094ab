"""The readers that `benchmarks.document_readers` compares: ours, and prototypes with libraries.

The libraries are given `_Problem`, the shape alone of our format: no unit is read, no name or graph
looked at. msgspec's Structs are made of the same dataclasses, so that there is one shape.
"""

from __future__ import annotations

import dataclasses
import json
import typing
from collections.abc import Callable
from importlib import util
from typing import Any

from tvm_hetero.platform.model import Platform
from tvm_hetero.problem.model import Problem
from tvm_hetero.util.documents import parse_document

ABSENT = "not installed"

# --------------------------------------------------------- the shape that the libraries are given

_Cost = float | dict[str, float]
_Quantity = int | float | str | None  # units are left unread


@dataclasses.dataclass
class _Device:
    name: str
    target: dict[str, Any]
    cores: list[int] = dataclasses.field(default_factory=list)
    overlap: bool = False
    memory: _Quantity = None
    peak_flops: _Quantity = None
    bandwidth: _Quantity = None
    launch: _Quantity = None


@dataclasses.dataclass
class _Platform:
    format: str
    devices: list[_Device]
    links: list[dict[str, Any]]
    name: str = "platform"


@dataclasses.dataclass
class _Task:
    id: str
    cost: dict[str, _Cost]
    op: str = ""
    weight_bytes: int = 0
    output_bytes: int = 0
    flops: float = 0.0
    bytes: float = 0.0
    sizes: dict[str, list[int]] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class _Edge:
    src: str
    dst: str
    bytes: int


@dataclasses.dataclass
class _Objective:
    kind: str = "latency"
    batch: int = 1


@dataclasses.dataclass
class _Problem:
    format: str
    platform: _Platform
    tasks: list[_Task]
    edges: list[_Edge]
    objective: _Objective
    name: str = "problem"


def _struct(kind: Any) -> Any:
    """The msgspec Struct of a dataclass; other types with those in them replaced."""
    import msgspec

    if typing.get_origin(kind) is list:
        return list[_struct(typing.get_args(kind)[0])]  # type: ignore[misc]
    if not dataclasses.is_dataclass(kind):
        return kind
    hints = typing.get_type_hints(kind)
    fields: list[Any] = []
    for field in dataclasses.fields(kind):
        default = []
        if field.default is not dataclasses.MISSING:
            default = [field.default]
        elif field.default_factory is not dataclasses.MISSING:
            default = [msgspec.field(default_factory=field.default_factory)]
        fields.append((field.name, _struct(hints[field.name]), *default))
    return msgspec.defstruct(kind.__name__, fields, forbid_unknown_fields=True)


# -------------------------------------------------------------------------------- the readers


class Reader(typing.NamedTuple):
    """One way to read: each field turns its argument into objects or raises."""

    text: Callable[[str], Any]  # a problem as JSON text
    platform: Callable[[Any], Any]  # a platform that is parsed
    plain: Callable[[Any], Any]  # objects to a document again
    reason: Callable[[Exception], str] = str


def _ours() -> Reader:
    def read(text: str) -> Problem:
        return Problem.from_dict(parse_document(text, "net.json"), "net.json")

    return Reader(read, Platform.from_dict, Problem.to_dict)


def _msgspec() -> Reader:
    import msgspec

    problem, platform = _struct(_Problem), _struct(_Platform)
    decode, convert = msgspec.json.Decoder(problem).decode, msgspec.convert
    return Reader(decode, lambda data: convert(data, platform), msgspec.to_builtins)


def _converted() -> Reader:
    import msgspec

    problem, decoded = _struct(_Problem), _msgspec()
    return decoded._replace(text=lambda text: msgspec.convert(json.loads(text), problem))


def _cattrs() -> Reader:
    import cattrs

    converter = cattrs.Converter(forbid_extra_keys=True)
    # Unions are beyond cattrs itself.
    converter.register_structure_hook(_Quantity, lambda value, _: value)
    table = dict[str, float]
    converter.register_structure_hook(
        _Cost,
        lambda value, _: (
            converter.structure(value, table) if isinstance(value, dict) else float(value)
        ),
    )

    def reason(error: Exception) -> str:
        known = isinstance(error, cattrs.BaseValidationError)
        return "; ".join(cattrs.transform_error(error)) if known else str(error)

    return Reader(
        lambda text: converter.structure(json.loads(text), _Problem),
        lambda data: converter.structure(data, _Platform),
        converter.unstructure,
        reason,
    )


# What makes mappings of JSON, no objects.
PARSERS: dict[str, Callable[[str], Any]] = {
    "json.loads": json.loads,
    "parse_document": lambda text: parse_document(text, "net.json"),
}
# Each reader and the library that it takes.
READERS: dict[str, tuple[Callable[[], Reader], str]] = {
    "ours": (_ours, "tvm_hetero"),
    "msgspec": (_msgspec, "msgspec"),
    "json, msgspec.convert": (_converted, "msgspec"),
    "json, cattrs": (_cattrs, "cattrs"),
}


def installed(library: str) -> bool:
    """Whether a library can be imported."""
    return util.find_spec(library) is not None
