"""The pads of a transposed convolution that is told what to make instead.

With n the length, s the stride, a the ``output_padding`` and k the extent of the dilated kernel, an
axis of what is made has (n - 1) s + a + k - pads elements, so

    pads = (n - 1) s + a + k - output_shape

and the larger half of an odd total is at the end for SAME_UPPER, else at the beginning.  What is
wanted beyond that is made by more ``output_padding``.  SAME without an ``output_shape`` wants n s,
but makes less rather than to pad the output (ONNX Runtime, and onnx where a is 0).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onnx import NodeProto

from tvm_hetero.frontends.onnx.model.mutable_graph import attribute

SAME = ("SAME_UPPER", "SAME_LOWER")


class TooLargeError(Exception):
    """More is asked for than any padding makes; the largest that is made, along each axis."""

    def __init__(self, wanted: list[int], largest: list[int]) -> None:
        super().__init__(f"has output_shape {wanted}, of which at most {largest} can be made")


def transposed_pads(
    node: NodeProto, lengths: Sequence[int], kernel: Sequence[int]
) -> dict[str, list[int]] | None:
    """Return the attributes that stand for ``output_shape`` and SAME.

    Parameters
    ----------
    node : NodeProto
        A ConvTranspose.
    lengths, kernel : sequence of int
        Of its operand and its weights, but for the first two axes.

    Returns
    -------
    dict of str to list of int or None
        ``pads`` and ``output_padding``; None if the node is told neither.

    Raises
    ------
    TooLargeError
        The shape cannot be made.
    """
    asked, mode = attribute(node, "output_shape"), auto_pad(node)
    if not asked and mode not in SAME:
        return None
    rank = len(lengths)
    strides = list(attribute(node, "strides") or [1] * rank)
    dilations = list(attribute(node, "dilations") or [1] * rank)
    added = list(attribute(node, "output_padding") or [0] * rank)
    shape = list(asked or [n * s for n, s in zip(lengths, strides, strict=True)])[-rank:]
    totals = [
        (lengths[i] - 1) * strides[i] + added[i] + (kernel[i] - 1) * dilations[i] + 1 - shape[i]
        for i in range(rank)
    ]
    # What is wanted beyond stands at the end, where no window of the next step begins.
    short = [max(0, -total) if asked else 0 for total in totals]
    if any(more >= stride for more, stride in zip(short, strides, strict=True)):
        raise TooLargeError(
            shape, [n - m + s - 1 for n, m, s in zip(shape, short, strides, strict=True)]
        )
    return {
        "output_padding": [a + more for a, more in zip(added, short, strict=True)],
        "pads": halves([max(0, total) for total in totals], mode),
    }


def auto_pad(node: NodeProto) -> str:
    """Return how a node says that it is padded: NOTSET where it gives the pads."""
    given: Any = attribute(node, "auto_pad", b"")
    return str(given.decode(errors="replace")) or "NOTSET"


def halves(totals: Sequence[int], mode: str) -> list[int]:
    """Return the pads at all beginnings, then at all ends."""
    if mode == "SAME_UPPER":
        return [total // 2 for total in totals] + [total - total // 2 for total in totals]
    return [total - total // 2 for total in totals] + [total // 2 for total in totals]
