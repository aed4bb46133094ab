"""Costs from a file, and costs into a file: the ``tvm-hetero/costs/1`` format.

    {"format": "tvm-hetero/costs/1",
     "kernels": {"fused_conv2d_relu": {"big": 0.0012, "little": {"1": 0.004, "4": 0.015}}}}

A cost is a number of seconds for one element, or a table from batch size to seconds for the
whole batch, as in a problem.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence

from tvm_hetero.cost_models.protocol import Costs, Progress, require_a_device
from tvm_hetero.errors import PlatformError, ProfileError
from tvm_hetero.passes.kernel import Kernel
from tvm_hetero.platform.model import Platform
from tvm_hetero.problem.cost import Cost
from tvm_hetero.problem.format import cost_value, parse_cost
from tvm_hetero.util.documents import (
    check_format,
    read_document,
    write_atomic,
)
from tvm_hetero.util.fields import Fields, refuse
from tvm_hetero.util.nearest import nearest
from tvm_hetero.util.quote import quote

FORMAT = "tvm-hetero/costs/1"


class TableCosts:
    """Costs that a file gives. The file may have more kernels than are asked for."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Read the file.

        Raises
        ------
        FormatError
            If it cannot be read or says something unknown or of the wrong kind.
        """
        self.path = os.fspath(path)
        self._table = load_costs(path)

    @property
    def name(self) -> str:
        """``table:PATH``."""
        return f"table:{self.path}"

    def costs(
        self,
        kernels: Sequence[Kernel],
        platform: Platform,
        progress: Progress | None = None,
    ) -> Costs:
        """The rows of the kernels that are asked for.

        Raises
        ------
        ProfileError
            If a kernel is not in the file, or is there with no device.
        PlatformError
            If a row names a device that the platform lacks.
        """
        result: Costs = {}
        for done, kernel in enumerate(kernels, start=1):
            row = self._table.get(kernel.name)
            if row is None:
                raise ProfileError(
                    f"{self.path}: no costs of kernel {quote(kernel.name)}"
                    f"{nearest(kernel.name, self._table)}"
                )
            for device in row:
                if device not in platform.index:
                    raise PlatformError(
                        f"{self.path}: kernel {quote(kernel.name)} has a cost on device "
                        f"{quote(device)}, which platform {platform.name!r} lacks"
                        f"{nearest(device, platform.index)}"
                    )
            result[kernel.name] = dict(row)
            if progress is not None:
                progress("read costs", done, len(kernels))
        require_a_device(result, dict.fromkeys(result, f"its row in {self.path} is empty"))
        return result


def load_costs(path: str | os.PathLike[str]) -> Costs:
    """Read a file of costs.

    Raises
    ------
    FormatError
        If it cannot be read or says something unknown or of the wrong kind.
    """
    where = os.fspath(path)
    document = read_document(path)
    check_format(document, FORMAT, where)
    kernels = Fields(document, where, ["format", "kernels"]).mapping("kernels")
    return {name: _row(name, kernels[name], where) for name in kernels}


def _row(name: object, data: object, where: str) -> dict[str, Cost]:
    """What a kernel costs on each device."""
    where = f"{where}: kernel {quote(name)}"
    if not isinstance(data, Mapping):
        refuse(data, where, "a mapping")
    return {device: parse_cost(c, f"{where} on {quote(device)}") for device, c in data.items()}


def dump_costs(costs: Mapping[str, Mapping[str, Cost]], path: str | os.PathLike[str]) -> None:
    """Write costs as JSON, one kernel a line, whole or not at all.

    Raises
    ------
    FormatError
        If a cost is not finite or negative, or the file cannot be written.
    """
    rows = []
    for name, row in costs.items():
        values = {device: cost_value(cost) for device, cost in row.items()}
        for device, value in values.items():
            parse_cost(value, f"kernel {name!r} on {device!r}")  # refuse what could not be read
        rows.append(f"{json.dumps(name)}: {json.dumps(values)}")
    body = ",\n  ".join(rows)
    write_atomic(path, f'{{"format": "{FORMAT}",\n "kernels": {{\n  {body}}}}}\n')
