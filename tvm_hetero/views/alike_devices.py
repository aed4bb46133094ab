"""Kinds of devices of an instance: those that can change places, and copies between kinds."""

from __future__ import annotations

import math

from tvm_hetero.views.instance import Instance
from tvm_hetero.views.symmetry import find_symmetry


class AlikeDevices:
    """Devices that can be exchanged as one, and the least that copies between kinds take.

    Attributes
    ----------
    first : one device of each kind.
    members : all devices of each kind.
    """

    def __init__(self, instance: Instance) -> None:
        types = find_symmetry(instance.problem).types()
        used = {d for row in instance.devices for d in row}
        self.instance = instance
        self.first = sorted({types[d] for d in used})
        self.members = [[d for d in sorted(used) if types[d] == kind] for kind in self.first]
        self._copies: dict[tuple[int, int, int], float] = {}
        self._legs: dict[tuple[int, int, int], float] = {}

    def copy(self, a: int, b: int, nbytes: int) -> float:
        """From a device of kind `a` to another one of kind `b`, s."""
        key = a, b, nbytes
        if key not in self._copies:
            src = self.first[a]
            times = (
                self.instance.copy_seconds(src, d, nbytes) for d in self.members[b] if d != src
            )
            self._copies[key] = min(times, default=math.inf)
        return self._copies[key]

    def beside(self, a: int, b: int, nbytes: int) -> float:
        """What a tensor from kind `a` to `b` takes of one of them beside another copy, s."""
        key = a, b, nbytes
        if key not in self._legs:
            self._legs[key] = min(self.leg(a, nbytes, out=True), self.leg(b, nbytes, out=False))
        return self._legs[key]

    def leg(self, kind: int, nbytes: int, *, out: bool) -> float:
        """The least time for which a device of a kind sends or receives; 0 if it computes on."""
        instance, here = self.instance, self.first[kind]
        if instance.problem.platform.devices[here].overlap:
            return 0.0
        ways = [
            instance.route(here, d, nbytes) if out else instance.route(d, here, nbytes)
            for d in range(len(instance.names))
            if d != here
        ]
        hops = {way[0] if out else way[-1] for way in ways if way}
        return min((instance.hop_seconds(hop, nbytes) for hop in sorted(hops)), default=0.0)
