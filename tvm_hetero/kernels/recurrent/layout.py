"""How the matrices of a recurrent kernel are laid out: one stream of weights for each step.

Units come in blocks of U, the last one filled up with units that no one reads. The gates that can
be computed together are a *group*: all of them, but for the GRU that resets before its product,
whose last gate waits for the others. With n for the block, k for the unit of the state that is
multiplied, g for the gate in its group, u for the unit in its block:

    weights   [group][n, k, g, u]    flat, in the order in which a step reads them
    columns   [group][n, g, u]       of the product that comes before (`columns_of`)

Weights in bytes are words of four: k counts words then, whose bytes are of four units.

So for each k a step reads G U numbers side by side, whatever the vectors of the target are. U is
the one of 64, 32 and 16 that fills up least, and of these the one where G U is nearest to 128
numbers: as many accumulators as hide the latency of one with vectors of 512 bits, and not more
than 16 registers with vectors of 256, half a block at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tvm_hetero.kernels.recurrent.recurrence import GRU, Recurrence

if TYPE_CHECKING:
    from numpy.typing import NDArray

_BLOCKS = (64, 32, 16)
_TOGETHER = 128


@dataclass(frozen=True)
class GateGroup:
    """Gates that are computed together, and where their columns and weights begin."""

    gates: tuple[int, ...]
    column: int
    weight: int


@dataclass(frozen=True)
class RecurrentLayout:
    """Blocks of units, groups of gates, and how many numbers or words a column has."""

    hidden: int
    block: int
    groups: tuple[GateGroup, ...]
    depth: int

    @property
    def blocks(self) -> int:
        """How many blocks there are."""
        return -(-self.hidden // self.block)

    @property
    def padded(self) -> int:
        """Units with those that no one reads."""
        return self.blocks * self.block

    @property
    def columns(self) -> int:
        """Columns of the product."""
        return sum(len(group.gates) for group in self.groups) * self.padded

    @property
    def weights(self) -> int:
        """Numbers of the packed weights."""
        return self.columns * self.depth


def layout_of(r: Recurrence) -> RecurrentLayout:
    """The layout for a recurrence; the same for all targets."""
    gates = tuple(range(r.gates))
    split = r.cell == GRU and not r.reset_after
    parts = (gates[:-1], gates[-1:]) if split else (gates,)
    widest = max(len(part) for part in parts)
    block = min(_BLOCKS, key=lambda u: (-(-r.hidden // u) * u, abs(widest * u - _TOGETHER)))
    padded = -(-r.hidden // block) * block
    groups, column, depth = [], 0, -(-r.hidden // 4) if r.in_bytes else r.hidden
    for part in parts:
        groups.append(GateGroup(part, column, column * depth))
        column += len(part) * padded
    return RecurrentLayout(r.hidden, block, tuple(groups), depth)


def columns_of(layout: RecurrentLayout) -> NDArray[np.int64]:
    """Which row of a matrix ``[gates * H, ..]`` each column is; one beyond the last for none."""
    gates = sum(len(group.gates) for group in layout.groups)
    unit = np.arange(layout.padded).reshape(layout.blocks, 1, layout.block)
    parts: list[NDArray[Any]] = []
    for group in layout.groups:
        gate = np.array(group.gates).reshape(1, -1, 1)
        row = np.where(unit < layout.hidden, gate * layout.hidden + unit, gates * layout.hidden)
        parts.append(row.reshape(-1))
    return np.concatenate(parts).astype(np.int64)
