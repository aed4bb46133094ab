"""Devices that a Relay program's annotations name, kept beside the module until they are asked for.

`on_device` of Relay wants an operator on a device, by type and number. That is a wish, not a
fact about the program, so it does not stand between the operators, where it would keep them from
being fused: the variable that the operator makes is noted, with the device, in an attribute of
``main``. `HeteroPartition(respect_annotations=True)` reads it (`pinned`, `pins`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from tvm_hetero.frontends.relay.program import Device

WISHES = "hetero_device_wishes"


def wishes_text(wishes: Mapping[str, Device]) -> str:
    """The attribute's text: names of variables, each with a device type and number."""
    return json.dumps({name: [d.kind, d.index] for name, d in wishes.items()})
