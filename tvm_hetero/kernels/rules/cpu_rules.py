"""The schedule rules for CPUs, in the order in which they are tried.

A rule gets a schedule of one kernel, `main`, and answers whether it has scheduled it: False means
that the kernel is another family's. A rule that raises has not fitted either: it worked on a copy.
The last one, `generic`, takes everything.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tvm_hetero.kernels.convolution.depthwise import schedule_depthwise
from tvm_hetero.kernels.convolution.packed import schedule_packed
from tvm_hetero.kernels.matmul.dot import schedule_dot
from tvm_hetero.kernels.matmul.gemm import schedule_gemm
from tvm_hetero.kernels.rowwise.pool_schedule import schedule_pool
from tvm_hetero.kernels.rowwise.rows import schedule_rows
from tvm_hetero.kernels.rowwise.transpose import schedule_transpose
from tvm_hetero.kernels.rules.generic import schedule_generic
from tvm_hetero.kernels.tir.block_roles import has_role_or_reduction

if TYPE_CHECKING:
    from tvm import tirx
    from tvm.s_tir import Schedule

    from tvm_hetero.kernels.cpu.vector_unit import VectorUnit

# (schedule of `main`, the target's vector unit, cores that one kernel may use) -> fits
Rule = Callable[["Schedule", "VectorUnit", int], bool]


CPU_RULES: dict[str, Rule] = {
    "gemm": schedule_gemm,
    "dot": schedule_dot,
    "packed": schedule_packed,
    "depthwise": schedule_depthwise,
    "pool": schedule_pool,
    "rows": schedule_rows,
    "transpose": schedule_transpose,
    "generic": schedule_generic,
}
# Of a kernel of which no block reduces or has a role; all others look for one or the other.
_ELEMENTWISE = ("transpose", "generic")


def rules_for(func: tirx.PrimFunc) -> dict[str, Rule]:
    """Those of `CPU_RULES` that may fit a kernel: to try one costs as much as to look at all."""
    if has_role_or_reduction(func):
        return CPU_RULES
    return {name: CPU_RULES[name] for name in _ELEMENTWISE}
