"""The attribute by which a kernel that is written by hand says which one it is, and its sizes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tvm import tirx

KERNEL_ATTR = "hetero.kernel"
ATTENTION, RECURRENT = "attention", "recurrent"


def kernel_parameters(func: tirx.PrimFunc, name: str) -> Mapping[str, Any] | None:
    """What the attribute of a kernel says, if it is the kernel of that name."""
    value = None if func.attrs is None else func.attrs.get(KERNEL_ATTR)
    if not isinstance(value, Mapping) or str(value["name"]) != name:
        return None
    return value
