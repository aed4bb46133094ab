"""Our own operations of TIR, made known to TVM: whoever reads modules of ours imports this first.

TVM reads no module that names an operation which it does not know.
"""

from __future__ import annotations

from tvm_hetero.kernels.cpu import (
    bfloat16_dot_ops,  # noqa: F401
    byte_dot_ops,  # noqa: F401
)
