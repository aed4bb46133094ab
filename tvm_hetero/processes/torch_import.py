"""Load TVM without PyTorch.

TVM's foreign function interface (tvm_ffi) imports PyTorch first, where it is installed, in order to
convert its tensors quickly. That takes longer than all the rest of TVM, and processes of ours that
exchange no tensors with PyTorch (the command line, nodes of a cluster, children that measure) need
it for nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

_TORCH = "torch"


def hide_torch() -> None:
    """No one finds PyTorch in this process from now on, unless it is loaded already."""
    # None stands for a module that is missing.
    sys.modules.setdefault(_TORCH, None)  # type: ignore[arg-type]


@contextmanager
def without_torch() -> Iterator[None]:
    """What is imported meanwhile does not find PyTorch, unless it is loaded already."""
    hidden = _TORCH not in sys.modules
    hide_torch()
    try:
        yield
    finally:
        if hidden:
            del sys.modules[_TORCH]
