"""Cost models by name.

They are ``profiled``, ``profiled-alone``, ``quick``, ``analytical`` and ``table:PATH``.
"""

from __future__ import annotations

from tvm_hetero.cost_models.protocol import CostModel
from tvm_hetero.errors import UsageError
from tvm_hetero.util.nearest import nearest

NAMES = ("analytical", "profiled", "profiled-alone", "quick", "table:PATH")
# Those that measure whatever they are asked.
MEASURING = ("profiled", "profiled-alone")
# Those of whose costs the most are estimates from a few measurements.
ESTIMATING = "quick"


def measures(name: str) -> bool:
    """Whether the cost model of that name measures all kernels and links; it is not made for it."""
    return name in MEASURING


def by_name(name: str) -> CostModel:
    """Make the cost model of that name; each is imported when it is first asked for.

    Parameters
    ----------
    name : ``"profiled"`` (measured here, in the whole network), ``"profiled-alone"`` (each kernel
        by itself alone), ``"quick"`` (a few measured, the others estimated), ``"analytical"``
        (roofline from the platform's figures) or ``"table:PATH"`` (read from a file).

    Raises
    ------
    UsageError
        If there is none of that name; the nearest is suggested.
    FormatError
        If the file of a table cannot be read.
    """
    kind, colon, argument = name.partition(":")
    if kind == "table" and argument:
        from tvm_hetero.cost_models.table import TableCosts

        return TableCosts(argument)
    if name in MEASURING:
        from tvm_hetero.cost_models.profiled import ProfiledCosts

        return ProfiledCosts(in_place=name == "profiled")
    if name == ESTIMATING:
        from tvm_hetero.cost_models.quick import QuickCosts

        return QuickCosts()
    if kind == "analytical" and not colon:
        from tvm_hetero.cost_models.analytical import AnalyticalCosts

        return AnalyticalCosts()
    raise UsageError(f"unknown cost model {name!r}{nearest(name, NAMES)}")
