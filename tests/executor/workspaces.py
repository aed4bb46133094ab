"""What the executor's workspaces (src/memory/workspace.h) have asked of the system, for tests."""

from __future__ import annotations

import tvm_ffi

from tvm_hetero.executor.native import load_library


def allocations() -> int:
    """How many workspaces the process has had from the system: no new ones in the steady state."""
    return _call("workspace_allocations")


def held_bytes() -> int:
    """How many bytes the workspaces of all threads have, in use or kept for the next kernel."""
    return _call("workspace_bytes")


def _call(name: str) -> int:
    load_library()
    return int(tvm_ffi.get_global_func(f"tvm_hetero.{name}")())
