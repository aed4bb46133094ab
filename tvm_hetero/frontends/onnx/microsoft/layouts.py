"""Operators in the layout of one processor, which are refused.

At its highest level ONNX Runtime's optimizer puts weights and values into blocks of as many
channels as a vector of the processor that it runs on has elements.  A file does not say how many.
"""

from __future__ import annotations

from tvm_hetero.frontends.onnx.expansion.registry import rewrites
from tvm_hetero.frontends.onnx.expansion.rewriting import Rewriting


@rewrites(
    "AveragePool",
    "Conv",
    "GlobalAveragePool",
    "GlobalMaxPool",
    "MaxPool",
    "ReorderInput",
    "ReorderOutput",
    "Upsample",
    domain="com.microsoft.nchwc",
)
def refuse_blocked_layout(r: Rewriting) -> bool:
    """Say how to get a file without such operators."""
    r.refuse(
        "is in a layout for the processor on which ONNX Runtime saved the file (its highest level "
        "of optimization). Take the file as it was before, or save it with "
        "graph_optimization_level = ORT_ENABLE_EXTENDED."
    )
