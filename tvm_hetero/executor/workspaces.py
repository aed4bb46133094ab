"""The memory that compiled kernels ask for while they run: src/memory/workspace.h, for Python."""

from __future__ import annotations

from typing import Any

from tvm_hetero.executor.native import load_library


def allocations() -> int:
    """How many workspaces the process has had from the system: no new ones in the steady state."""
    return int(_function("workspace_allocations")())


def bytes_now() -> int:
    """How many bytes the workspaces of all threads have, in use or kept for the next kernel."""
    return int(_function("workspace_bytes")())


def _function(name: str) -> Any:
    load_library()
    import tvm_ffi

    return tvm_ffi.get_global_func(f"tvm_hetero.{name}")
