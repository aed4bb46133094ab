"""Teams that look alike: subtrees of nested teams that may be exchanged as a whole.

Where of two devices that share a core one holds all cores of the other, devices form trees: the
parent of a team is the smallest that holds it. Two children of one parent (or two roots of a node)
with equal subtrees, in what devices are and how they are nested, are candidates for an exchange,
device by device. Whether an exchange is a symmetry is for `views.symmetry` to verify.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm_hetero.platform.model import Platform
from tvm_hetero.platform.teams import nested

Block = tuple[int, ...]
Shape = tuple[object, ...]


def team_orbits(platform: Platform, kinds: Sequence[int]) -> list[list[Block]]:
    """Rows of at least two aligned subtrees of at least two devices, those that hold others first.

    Parameters
    ----------
    kinds : a number for every device, equal for devices with equal figures and costs.
    """
    if not platform.cliques or not nested(platform.devices, platform.cliques):
        return []
    teams = [platform.index[name] for name in platform.team_cores]
    teams.sort(key=lambda d: (-len(platform.devices[d].cores), d))
    children: dict[object, list[int]] = {}
    for i, d in enumerate(teams):
        children.setdefault(_parent(platform, teams[:i], d), []).append(d)
    trees = {d: _tree(d, children, kinds) for d in teams}
    found: list[list[Block]] = []
    for row in children.values():
        alike: dict[Shape, list[Block]] = {}
        for d in row:
            shape, block = trees[d]
            if len(block) > 1:
                alike.setdefault(shape, []).append(block)
        found += [blocks for blocks in alike.values() if len(blocks) > 1]
    return sorted(found, key=lambda blocks: (-len(blocks[0]), blocks))


def _parent(platform: Platform, wider: Sequence[int], d: int) -> object:
    """The smallest of `wider` that holds a team, or the team's node."""
    own = platform.devices[d]
    for other in reversed(wider):
        device = platform.devices[other]
        if device.node == own.node and set(own.cores) <= set(device.cores):
            return other
    return own.node


def _tree(d: int, children: dict[object, list[int]], kinds: Sequence[int]) -> tuple[Shape, Block]:
    """What a subtree looks like, and its devices in an order that follows from that."""
    below = sorted((_tree(child, children, kinds) for child in children.get(d, [])), key=repr)
    shape = (int(kinds[d]), *(shape for shape, _ in below))
    return shape, (d, *(device for _, block in below for device in block))
