"""Concatenations that need no kernel, since their parts are made where they belong.

The result of a *join* (`tvm_hetero.kernels.rowwise.concat`) is its parts, one behind the other.
Where a segment makes the parts and the result and no one outside of it sees any of them, the
result's memory is taken before the first part is made, each part is a piece of it, and the call is
left out. Parts may be joins themselves: the layers of a block of DenseNet all stand in one piece of
memory.

    a join is *free* if its parts are tensors of the segment's own, each once, in none of an earlier
    free join, and each begins at a multiple of `ALIGNMENT` bytes of it

A tensor that is part of two joins is made for the first of them, and copied into the second.

The memory of the outermost join lives from the call that makes the first of its parts to the last
that reads any tensor in it. That is as long as parts and result would live together, so nothing is
lost but that it has to be one piece.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tvm_hetero.compiler.storage import ALIGNMENT
from tvm_hetero.passes.lowered_main import LoweredMain, TensorSource


@dataclass(frozen=True)
class _Inside:
    """A tensor is a piece of another one, `offset` bytes from its start."""

    whole: TensorSource
    offset: int


@dataclass
class Joined:
    """Which tensors of a segment are pieces of others, and the calls that this makes needless."""

    pieces: dict[TensorSource, _Inside] = field(default_factory=dict)
    calls: list[int] = field(default_factory=list)

    def place(self, root: TensorSource) -> tuple[TensorSource, int]:
        """The outermost tensor that one is a piece of, and the bytes from its start."""
        offset = 0
        while root in self.pieces:
            inside = self.pieces[root]
            root, offset = inside.whole, offset + inside.offset
        return root, offset


def find_joined(
    main: LoweredMain,
    calls: Sequence[int],
    own: set[TensorSource],
    starts: Mapping[int, Sequence[int]],
) -> Joined:
    """The free joins of a segment.

    Parameters
    ----------
    main : the function.
    calls : those of the segment, in order.
    own : tensors that the segment makes and no one else sees.
    starts : for each call that is a join where its parts begin in the result, bytes.
    """
    joined = Joined()
    for position in (call for call in calls if call in starts):
        result = TensorSource(position, 0)
        roots = [main.root(arg) for arg in main.calls[position].args]
        parts = [root for root in roots if root and root in own and root not in joined.pieces]
        aligned = all(start % ALIGNMENT == 0 for start in starts[position])
        if aligned and result in own and len(set(parts)) == len(roots):
            for part, start in zip(parts, starts[position], strict=True):
                joined.pieces[part] = _Inside(result, start)
            joined.calls.append(position)
    return joined
