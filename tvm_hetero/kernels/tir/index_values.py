"""What a kernel's integers are while it is measured, written on the kernel itself.

Kernels that read indices or lengths are measured with 0 in them, which is right wherever the time
does not depend on the number. Where it does (attention reads as many rows as the sequence is long)
the kernel says by the attribute `VALUES` which number stands for all: JSON, from the position of a
parameter to the number that fills it. Its arithmetic depends on the number too, so such a kernel
says by `FLOPS` how many operations it takes; of others that is counted.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tvm import tirx

VALUES = "hetero.values"
FLOPS = "hetero.flops"


def values_of(func: tirx.PrimFunc) -> dict[int, int]:
    """The numbers that a kernel's parameters are filled with when it is measured."""
    text = func.attrs.get(VALUES) if func.attrs is not None else None
    return {} if text is None else {int(i): int(n) for i, n in json.loads(str(text)).items()}
