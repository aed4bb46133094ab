"""The judge: is this a valid schedule of this problem? It shares nothing with any solver."""

from __future__ import annotations

from tvm_hetero.check.checker import (
    Violation,
    check_schedule,
    memory_peaks,
    objective_value,
    verified,
)

__all__ = ["Violation", "check_schedule", "memory_peaks", "objective_value", "verified"]
