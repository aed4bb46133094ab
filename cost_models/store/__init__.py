"""What was measured on this machine, kept: a SQLite file in the user's cache.

database   times, links, tuned schedules and whole networks; found by kernel and place
layout     its tables, and how older files are brought up to date
identity   what a kernel and a place are known by
traces     traces of tuned schedules, from the store into a module
"""

from __future__ import annotations

from tvm_hetero.cost_models.store.database import CostStore, KernelKey, MeasuringPlace, Tuning

__all__ = ["CostStore", "KernelKey", "MeasuringPlace", "Tuning"]
