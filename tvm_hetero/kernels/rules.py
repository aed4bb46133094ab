"""The schedule rules for CPUs, in the order in which they are tried.

A rule gets a schedule of one kernel, `main`, and answers whether it has scheduled it: False means
that the kernel is another family's. A rule that raises has not fitted either: it worked on a copy.
The last one, `generic`, takes everything.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .depthwise import schedule_depthwise
from .dot import schedule_dot
from .gemm import schedule_gemm
from .generic import schedule_generic
from .packed import schedule_packed
from .pool_schedule import schedule_pool
from .rows import schedule_rows
from .transpose import schedule_transpose

if TYPE_CHECKING:
    from tvm.s_tir import Schedule

    from .facts import VectorUnit

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
