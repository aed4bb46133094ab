"""Cost models: how long each kernel takes on each device (measured, computed, or from a file)."""

from __future__ import annotations

from tvm_hetero.cost_models.protocol import CostModel, Kernel, ProfileWarning, Progress
from tvm_hetero.cost_models.registry import by_name

__all__ = ["CostModel", "Kernel", "ProfileWarning", "Progress", "by_name"]
