"""The bias of a convolution: one number for each output channel, which onnx does not look at.

TVM broadcasts it, so that a single number would be repeated for all channels; ONNX Runtime refuses
that.
"""

from __future__ import annotations

from tvm_hetero.frontends.onnx.expansion.rewriting import Rewriting


def check_bias(r: Rewriting, bias: str, weights: str, *, transposed: bool = False) -> None:
    """Refuse a bias of another length than there are output channels.

    Parameters
    ----------
    r : Rewriting
        The node; ``group`` is its.
    bias, weights : str
        Values; '' for no bias. Weights are ``[O, I / group, ...]``.
    transposed : bool
        Weights are ``[I, O / group, ...]``.

    Raises
    ------
    ModelError
        It is one.
    """
    if not bias or not r.is_shaped(bias) or not r.is_shaped(weights):
        return
    dims, given = r.dims(weights), r.dims(bias)
    count = dims[1] * int(r.attribute("group", 1)) if transposed else dims[0]
    if given != (count,):
        r.refuse(f"has a bias of {list(given)} for {count} output channels; expected [{count}]")
