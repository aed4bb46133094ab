"""Devices on which nothing has happened yet: of those that are alike, trying one is enough.

A list scheduler tries each task on every device. On a cluster nearly all of them are idle copies
of each other, and give the same result. Let D be the devices that hold nothing so far, neither an
execution nor a copied tensor, and let p be a symmetry (`tvm_hetero.views.symmetry`) that moves
devices of D only. Then a task ends on d when it ends on p(d), and leaves as much memory. So of each
class

    - twins in D: exchanging them moves nothing else;
    - devices of one type whose whole nodes are in D: exchanging two nodes, or twins within one,
      moves nothing outside these nodes

only the first is tried; as ties go to the first device anyhow, the result is the same.

This holds for every rule that looks at ends, space and costs. A rule that picks out a device says
so (`apart`), and that device is always tried.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tvm_hetero.problem.model import Problem
from tvm_hetero.views.symmetry import find_symmetry

# A key for those that are alike: whether the whole node is idle, and the first device of the class.
Key = tuple[bool, int]


class UnusedDevices:
    """Which devices need to be tried.

    Parameters
    ----------
    apart : devices that the rule treats unlike their likes.
    """

    def __init__(self, problem: Problem, apart: Iterable[int] = ()) -> None:
        self._used: set[int] = set(apart)
        self._node = [device.node for device in problem.platform.devices]
        self._used_nodes = {self._node[d] for d in self._used}
        self._some_alike = len(self._used) < len(self._node)
        if not self._some_alike:
            return
        symmetry = find_symmetry(problem)
        self._types = symmetry.types()
        self._twins = list(range(symmetry.devices))
        for twins in symmetry.twins:
            for d in twins:
                self._twins[d] = twins[0]
        self._some_alike = len(set(self._types)) < symmetry.devices

    def use(self, devices: Iterable[int]) -> None:
        """Something has happened on these."""
        for d in devices:
            self._used.add(d)
            self._used_nodes.add(self._node[d])

    def some(self, devices: Sequence[int]) -> Sequence[int]:
        """Of these devices, in their order, those that need to be tried."""
        if not self._some_alike:
            return devices
        seen: set[Key] = set()
        found = []
        for d in devices:
            if d not in self._used:
                idle = self._node[d] not in self._used_nodes
                key = (idle, self._types[d] if idle else self._twins[d])
                if key in seen:
                    continue
                seen.add(key)
            found.append(d)
        return found
