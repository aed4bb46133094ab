"""Devices that a program names: which operators heed them, and which wishes nobody heeds.

``on_device`` and copies are no operators but notes on the value under them. What they say of the
operator that makes the value (``constrain_body``, the source of a copy) becomes its device; what
they say of the operators that read it is listed as unheeded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tvm_hetero.frontends.relay.core import program as relay
from tvm_hetero.frontends.relay.core.limits import ReadBudget
from tvm_hetero.frontends.relay.core.program import RelayDevice, Var
from tvm_hetero.frontends.relay.flat_values import FlatItem, FlatStep, Value, leaves
from tvm_hetero.util.untrusted_names import printable

ANNOTATIONS = frozenset(
    {"on_device", "annotation.on_device", "device_copy", "copy", "identity",
     "annotation.stop_fusion", "annotation.cast_hint", "annotation.compiler_begin",
     "annotation.compiler_end", "annotation.checkpoint"}
)  # fmt: skip
# Names of attributes, of all versions: the device of what is annotated, and where a copy goes.
_MADE = ("virtual_device", "se_scope", "src_virtual_device", "src_se_scope", "device_type",
         "src_dev_type")  # fmt: skip
_COPIED = ("dst_virtual_device", "dst_se_scope", "dst_dev_type")


@dataclass
class Devices:
    """The devices that a program names, as they are met.

    Attributes
    ----------
    unheeded : dict of str to None
        Where it names them for operators that read a value, in order.
    """

    budget: ReadBudget
    unheeded: dict[str, None] = field(default_factory=dict)

    def variable(self, var: Var, where: str = "") -> None:
        """A variable on a device asks that who reads it runs there."""
        if var.device is not None:
            place = f"{where}: " if where else ""
            self.unheeded[f"{place}virtual_device of '{printable(var.name)}'"] = None

    def annotation(self, call: relay.RelayCall, name: str, value: Value) -> None:
        """The operator under an annotation is to run on the device that is named.

        That is what ``constrain_body`` (and the source of a copy) says. ``constrain_result`` (and
        the target of a copy) is about the operators that read the value, wherever they are.
        """
        device, given = _device(call.attributes, _MADE), call.attributes
        fixed = bool(given.get("constrain_result") or given.get("is_fixed"))
        body = bool(given.get("constrain_body", True))
        if device is not None and (fixed or not body):
            self.unheeded[f"{call.where}: {'constrain_result' if fixed else name}"] = None
        elif _device(given, _COPIED) is not None:
            self.unheeded[f"{call.where}: the target of {name}"] = None
        if device is not None and body:
            marked = leaves(value)
            self.budget.spend(len(marked))
            _mark(marked, device)


def _device(attributes: Mapping[str, Any], names: tuple[str, ...]) -> RelayDevice | None:
    """The device that an annotation names under the first of some names that says one."""
    for name in names:
        found = attributes.get(name)
        if isinstance(found, RelayDevice):
            return found
        if isinstance(found, int) and found > 0:
            return RelayDevice(found)
    return None


def _mark(values: list[Value], device: RelayDevice) -> None:
    for each in values:
        step = each.step if isinstance(each, FlatItem) else each
        if isinstance(step, FlatStep):
            step.device = device
