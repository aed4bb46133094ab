"""The judge: is this a valid schedule of this problem? It counts everything itself."""

from __future__ import annotations

from tvm_hetero.check.checker import check_schedule, verified
from tvm_hetero.check.memory import memory_peaks
from tvm_hetero.check.parsed_schedule import Violation
from tvm_hetero.check.value import objective_value

__all__ = ["Violation", "check_schedule", "memory_peaks", "objective_value", "verified"]
