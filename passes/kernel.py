"""A kernel as a module has it: what cost models are asked about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tvm.tirx import PrimFunc


@dataclass(frozen=True, eq=False)
class Kernel:
    """One distinct fused operator, before it is scheduled for any device.

    Attributes
    ----------
    name : unique within its model.
    func : the unscheduled function; its attributes name no device.
    flops, bytes : arithmetic operations and bytes moved to and from memory, for one call.
    constants : positions of the parameters that hold weights.
    """

    name: str
    func: PrimFunc
    flops: float = 0.0
    bytes: float = 0.0
    constants: tuple[int, ...] = ()
