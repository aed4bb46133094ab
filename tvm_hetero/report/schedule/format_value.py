"""What the value of an objective is called, and how it is written."""

from __future__ import annotations

from tvm_hetero.util.units import format_seconds

# What the value of each objective is called, and its unit (None: seconds).
_QUANTITIES = {
    "latency": ("latency", None),
    "throughput": ("time per batch", None),
    "energy": ("energy per batch", "J"),
    "cost": ("price per batch", ""),
}


def value_name(kind: str) -> str:
    """What the value of an objective of that kind is called (``time per batch``)."""
    return _QUANTITIES.get(kind, (kind, ""))[0]


def format_value(kind: str, value: float) -> str:
    """The value of an objective with its unit."""
    unit = _QUANTITIES.get(kind, (kind, ""))[1]
    return format_seconds(value) if unit is None else f"{value:.4g} {unit}".rstrip()
