"""Facts about the vector units of CPUs: one table, from which every tile and layout is reckoned.

A rule never asks which instruction set it has; it reads numbers here. A new instruction set is
a new line of `UNITS`.

    what a number means            the attributes of `VectorUnit`
    which target has which         `UNITS` by LLVM's features, `_CPUS` by name  -> `vector_unit`
    how limits of a loop add up    `combine_limits`

Numbers are what Zen 2-5 and Intel's cores since Skylake share, or come from sweeps over tiles on
one Zen 5 core with AVX-512 and AVX2; SSE's and NEON's were not measured. The cache sizes are the
smallest of the machines that a target name covers.

At length: docs/method/vector-unit.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tvm.target import Target

_KIB = 1024
# Of what order the norm is by which limits of a loop add up.
_LIMITS_NORM = 8


@dataclass(frozen=True)
class VectorUnit:
    """The vector registers of one CPU core and what using them costs.

    Attributes
    ----------
    bits
        Width of a register in bits.
    registers
        How many there are.
    fmas
        Vector multiply-adds that start in one cycle.
    latency
        Cycles between two additions to one accumulator.
    loads
        Loads that start in one cycle.
    load
        Cycles for a vector's own load, beside the arithmetic.
    stream, far
        Bytes a cycle that come from the second-level cache, and from beyond it.
    store_vector, store_value
        Cycles for each result, stored with whole vectors and one by one.
    broadcasts
        Whether a multiply-add broadcasts a value from memory by itself, so that one that is used
        once needs no register.
    partial
        Whether vectors of any length up to a register's cost what whole ones do.
    folded
        Operands of a tile beyond the registers that do not make LLVM spill.
    follows
        Whether the core's own prefetcher keeps up with what is read at the memory's pace.
    spills
        Whether sums beyond the registers cost less than half a block read apart, while the memory
        is waited for.
    pairs
        LLVM's intrinsic for products of 16 bits, added in pairs; empty without one.
    bytes
        LLVM's intrinsic that adds products of four bytes, unsigned by signed, to 32 bits; empty
        without one.
    dots
        LLVM's intrinsic that adds products of pairs of bfloat16 to float32; empty without one.
    amx
        Whether there are tile registers, for bfloat16 and for bytes.
    ahead, codes_ahead
        Bytes ahead that constants, and codes of few bits, are asked for; 0 for not at all.
    l2
        Bytes of the second-level cache of one core.
    """

    bits: int
    registers: int
    fmas: float = 2.0
    latency: float = 4.5
    loads: float = 2.2
    load: float = 0.25
    stream: float = 32.0
    far: float = 16.0
    store_vector: float = 0.15
    store_value: float = 1.2
    broadcasts: bool = False
    partial: bool = False
    folded: int = 3
    follows: bool = False
    spills: bool = True
    pairs: str = ""
    bytes: str = ""
    dots: str = ""
    amx: bool = False
    ahead: int = 8192
    codes_ahead: int = 0
    l2: int = 512 * _KIB

    @property
    def of_layouts(self) -> VectorUnit:
        """The unit without what no layout of weights depends on.

        How weights come, and what bfloat16 and bytes are multiplied by, is nothing to their layout,
        and whether sums spill is for the tile to say.
        """
        alike = replace(self, follows=False, ahead=8192, codes_ahead=0)
        return replace(alike, spills=True, bytes="", dots="", amx=False)

    @property
    def lanes(self) -> int:
        """Values of 32 bits in a register."""
        return self.lanes_of(32)

    def lanes_of(self, bits: int) -> int:
        """Values of ``bits`` bits each in a register."""
        return self.bits // bits


AVX512 = VectorUnit(
    bits=512,
    registers=32,
    broadcasts=True,
    partial=True,
    pairs="llvm.x86.avx512.pmaddw.d.512",
    l2=1024 * _KIB,
)
AVX512_BF16 = replace(AVX512, dots="llvm.x86.avx512bf16.dpbf16ps.512")
# Sapphire Rapids, and what came after it.
AMX = replace(AVX512_BF16, amx=True, ahead=3072, codes_ahead=2048)
AVX2 = VectorUnit(bits=256, registers=16, pairs="llvm.x86.avx2.pmadd.wd")
NEON = VectorUnit(bits=128, registers=32)
# Without fused multiply-adds a product needs a register of its own: with 3 operands folded
# 128 x 768 x 768 reached 32 GFLOP/s instead of 47, a 3x3 convolution 35 instead of 44.
SSE = VectorUnit(bits=128, registers=16, folded=1, pairs="llvm.x86.sse2.pmadd.wd", l2=256 * _KIB)

# The instruction that some cores have, whatever else they have: for each width of vectors the
# feature of LLVM's and the instruction's name there.
_VNNI = {
    512: ("avx512vnni", "llvm.x86.avx512.vpdpbusd.512"),
    256: ("avxvnni", "llvm.x86.avx512.vpdpbusd.256"),
}
# CPUs that are known better than by their features. `follows` was found on Zen 4 with the cases of
# `benchmarks.decode_kernels`; on Zen 5 it was not tried. That sums may spill was found on Zen 5
# (1.71 instead of 1.96 ms for 8 rows by 4096 x 4096); on Zen 4 such a tile takes 8.7 ms, not 2.9.
_CPUS: dict[str, VectorUnit] = {
    "znver4": replace(AVX512_BF16, follows=True, spills=False, bytes=_VNNI[512][1]),
}
# LLVM features that a target must have -> its unit; the first that fits counts.
UNITS: dict[tuple[str, ...], VectorUnit] = {
    ("amx-bf16", "amx-int8", "avx512bf16", "avx512bw"): AMX,
    ("avx512bf16", "avx512bw"): AVX512_BF16, ("avx512bw",): AVX512,
    ("avx2",): AVX2, ("neon",): NEON, ("sse2",): SSE,
}  # fmt: skip
_BASELINE = replace(SSE, pairs="")


def vector_unit(target: Target) -> VectorUnit:
    """The vector unit of an llvm target.

    Asks LLVM for the features that ``mcpu`` and ``mattr`` give. ``llvm_get_vector_width`` is
    of no use: it answers 512 for x86-64-v3 too.
    """
    from tvm.target import codegen

    known = _CPUS.get(str(target.attrs.get("mcpu")))
    if known is not None and target.attrs.get("mattr") is None:
        return known
    for features, unit in UNITS.items():
        if all(codegen.target_has_features(feature, target) for feature in features):
            feature, name = _VNNI.get(unit.bits, ("", ""))
            has_bytes = feature and codegen.target_has_features(feature, target)
            return replace(unit, bytes=name) if has_bytes else unit
    return _BASELINE


def known_units() -> list[VectorUnit]:
    """Every unit that `vector_unit` may answer with."""
    plain = [*UNITS.values(), *_CPUS.values(), _BASELINE]
    with_bytes = [replace(u, bytes=_VNNI[u.bits][1]) for u in plain if u.bits in _VNNI]
    return [*plain, *with_bytes]


def cores(target: Target) -> int:
    """How many cores one kernel may use: the target's ``num-cores``, else one."""
    value = target.attrs.get("num-cores")
    return 1 if value is None else max(1, int(value))


def combine_limits(limits: Sequence[float]) -> float:
    """About the largest, a little more where others come close: they do not overlap fully."""
    return float(sum(limit**_LIMITS_NORM for limit in limits) ** (1 / _LIMITS_NORM))
