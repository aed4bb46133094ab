"""What the arithmetic units of a device can do, where that is not everything.

A processor, or a GPU, computes all that a network asks for. Units inside of a memory do not: those
of HBM-PIM multiply matrices with vectors and add, in 16 bits; softmax and norms they leave to
others. A device that says so (``units``) gets costs for these kinds of work alone, and so no task
of another kind is ever placed there: without a cost a device cannot run a task (docs/formats.md).

Kinds of work are those by which shares of a peak differ (`tvm_hetero.zoo.costs`):

    conv, depthwise     convolutions and what is fused with them
    gemm                matrix products and what is fused with them: norms, activations, softmax
    product             a matrix product alone, onto which sums may be added
    attention           products with keys and values, and the softmax between them
    elementwise         functions of single numbers, sums
    lookup              rows of tables by their numbers (embeddings)
    rowwise             softmax and norms, which need all of a row
    rnn                 recurrent cells
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from tvm_hetero.errors import PlatformError
from tvm_hetero.util.fields import Fields
from tvm_hetero.util.nearest import nearest
from tvm_hetero.util.quote import quote

WorkKind = Literal[
    "conv", "depthwise", "gemm", "product", "attention", "elementwise", "lookup", "rowwise", "rnn"
]
WORK_KINDS: tuple[WorkKind, ...] = get_args(WorkKind)


@dataclass(frozen=True)
class Units:
    """The arithmetic units of a device.

    Attributes
    ----------
    width : bytes of the widest numbers that they compute with; narrower ones they can as well.
    work : the kinds of work that they can do, and the share of the device's ``peak_flops`` that
        each reaches.
    """

    width: int
    work: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse kinds of work that are none, and shares that are no shares.

        Raises
        ------
        PlatformError
            Naming the kind.
        """
        for kind, share in self.work.items():
            if kind not in WORK_KINDS:
                hint = nearest(kind, WORK_KINDS)
                raise PlatformError(f"units: kind of work {quote(kind)} is unknown{hint}")
            if not 0 < share <= 1:
                raise PlatformError(
                    f"units: {kind}: expected a share above 0 and at most 1, got {share!r}"
                )

    def can_run(self, kind: str, width: int) -> bool:
        """Whether they do this kind of work with numbers of `width` bytes."""
        return width <= self.width and kind in self.work


def parse_units(device: Fields) -> Units | None:
    """The ``units`` of a device's row; None if it has none.

    Raises
    ------
    FormatError
        If a kind of work is unknown, or a share is not above 0 and at most 1.
    """
    if not device.has("units"):
        return None
    row = device.fields("units", ["width", "work"])
    work = row.fields("work", (), WORK_KINDS)
    if not work.data:
        row.refuse("work", "at least one kind of work, such as {product: 1}")
    return Units(row.integer("width", least=1, most=16), {k: _share(work, k) for k in work.data})


def units_row(units: Units) -> dict[str, Any]:
    """What `parse_units` reads."""
    return {"width": units.width, "work": {kind: float(s) for kind, s in units.work.items()}}


def _share(work: Fields, kind: str) -> float:
    share = work.number(kind, "a share above 0 and at most 1")
    if not 0 < share <= 1:
        work.refuse(kind, "a share above 0 and at most 1")
    return share
