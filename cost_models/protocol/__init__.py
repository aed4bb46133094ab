"""What every cost model is, and what it says when something has no cost."""

from __future__ import annotations

from tvm_hetero.cost_models.protocol.cost_model import (
    CostModel,
    Costs,
    MeasuringCostModel,
    Progress,
    require_a_device,
)
from tvm_hetero.cost_models.protocol.warnings import (
    ProfileWarning,
    left_out,
    not_at_once,
    not_in_place,
    refused,
)

__all__ = [
    "CostModel",
    "Costs",
    "MeasuringCostModel",
    "ProfileWarning",
    "Progress",
    "left_out",
    "not_at_once",
    "not_in_place",
    "refused",
    "require_a_device",
]
