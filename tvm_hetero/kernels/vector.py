"""What a target's vector unit is, as far as kernels care: lanes and registers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tvm.target import Target


@dataclass(frozen=True)
class VectorUnit:
    """The vector registers of one CPU core.

    Attributes
    ----------
    bits
        Width of a register in bits.
    registers
        How many there are.
    """

    bits: int
    registers: int

    @property
    def lanes(self) -> int:
        """Values of 32 bits in a register."""
        return self.bits // 32


AVX512 = VectorUnit(bits=512, registers=32)
AVX2 = VectorUnit(bits=256, registers=16)
NEON = VectorUnit(bits=128, registers=32)
SSE = VectorUnit(bits=128, registers=16)


def vector_unit(target: Target) -> VectorUnit:
    """The vector unit of an llvm target.

    Asks LLVM for the features that ``mcpu`` and ``mattr`` give. ``llvm_get_vector_width`` is
    of no use: it answers 512 for x86-64-v3 too.
    """
    from tvm.target import codegen

    for feature, unit in (("avx512f", AVX512), ("avx2", AVX2), ("neon", NEON)):
        if codegen.target_has_features(feature, target):
            return unit
    return SSE


def cores(target: Target) -> int:
    """How many cores one kernel may use: the target's ``num-cores``, else one."""
    value = target.attrs.get("num-cores")
    return 1 if value is None else max(1, int(value))
