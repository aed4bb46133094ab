"""Watts as limit or goal: throughput under a power cap, least energy at a rate or of a batch."""

from __future__ import annotations

from tvm_hetero.planning.power.batch import batch_energy
from tvm_hetero.planning.power.plan import PowerPlan, least_energy, most_throughput

__all__ = ["PowerPlan", "batch_energy", "least_energy", "most_throughput"]
