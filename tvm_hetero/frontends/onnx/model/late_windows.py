"""Windows of a pool that would start behind its input, which make no output.

With ``ceil_mode`` the last window may reach beyond the padding.  Where it would *start* there,
PyTorch and ONNX Runtime leave it out, and so the text of ONNX says; onnx's own shape inference
counts it for opsets before 22.  With L the length and the padding in front of it, p that behind,
k the extent of a dilated kernel and s the stride,

    windows = ceil((L + p - k) / s) + 1,    one less where (windows - 1) s >= L

and the padding behind that makes so many without ``ceil_mode`` is (windows - 1) s + k - L.
"""

from __future__ import annotations

from collections.abc import Sequence

from onnx import NodeProto

from tvm_hetero.frontends.onnx.model.mutable_graph import attribute
from tvm_hetero.frontends.onnx.model.transposed_pads import auto_pad

POOLS = ("MaxPool", "AveragePool", "LpPool")


def pads_without_late_windows(node: NodeProto, dims: Sequence[int]) -> list[int] | None:
    """Return the pads of a pool that make its windows without ``ceil_mode``.

    Parameters
    ----------
    node : NodeProto
        Of `POOLS`.
    dims : sequence of int
        Of its operand.

    Returns
    -------
    list of int or None
        At all beginnings, then at all ends; None if no window starts behind the input.
    """
    if not attribute(node, "ceil_mode", 0) or auto_pad(node) != "NOTSET":
        return None
    lengths = dims[2:]
    rank = len(lengths)
    kernel = list(attribute(node, "kernel_shape"))
    strides: list[int] = list(attribute(node, "strides") or [1] * rank)
    dilations = list(attribute(node, "dilations") or [1] * rank)
    pads = window_pads(node, rank)
    ends, late = [], False
    for i, (length, stride) in enumerate(zip(lengths, strides, strict=True)):
        extent = (kernel[i] - 1) * dilations[i] + 1
        whole = length + pads[i]
        count = -(-(whole + pads[rank + i] - extent) // stride) + 1
        if (count - 1) * stride >= whole:
            count, late = count - 1, True
        ends.append(max(0, (count - 1) * stride + extent - whole))
    return [*pads[:rank], *ends] if late else None


def window_pads(node: NodeProto, rank: int) -> list[int]:
    """Return the pads that a pool is given, at all beginnings and then at all ends."""
    return list(attribute(node, "pads") or [0] * 2 * rank)


def counts_padding(node: NodeProto) -> bool:
    """Whether a pool's averages count what is padded."""
    return node.op_type == "AveragePool" and bool(attribute(node, "count_include_pad", 0))
