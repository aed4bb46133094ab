"""Parameters of the zoo's problems, as the command line gives them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tvm_hetero.errors import UsageError

if TYPE_CHECKING:
    from tvm_hetero.zoo import ZooEntry

_TYPES = {int: "an integer", float: "a number"}


def parse_setting(name: str, entry: ZooEntry, text: str) -> tuple[str, Any]:
    """Read ``KEY=VALUE``; the value is of the default's type."""
    from tvm_hetero.util.nearest import nearest

    key, equals, value = text.partition("=")
    if not equals:
        raise UsageError(f"--set {text!r}: expected KEY=VALUE")
    if key not in entry.parameters:
        raise UsageError(f"--set: {name} has no parameter {key!r}{nearest(key, entry.parameters)}")
    kind = type(entry.parameters[key])
    try:
        return key, kind(value)
    except ValueError:
        expected = _TYPES.get(kind, "text")
        raise UsageError(f"--set {text!r}: expected {expected} for {key}") from None
