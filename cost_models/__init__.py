"""Cost models: how long each kernel takes on each device (measured, computed, or from a file)."""

from __future__ import annotations

from tvm_hetero.cost_models.protocol import CostModel, ProfileWarning, Progress
from tvm_hetero.cost_models.registry import by_name
from tvm_hetero.passes.kernel import Kernel

__all__ = ["CostModel", "Kernel", "ProfileWarning", "Progress", "by_name"]
