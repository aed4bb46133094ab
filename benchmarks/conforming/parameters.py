"""Which operands of an operator exporters write as initializers."""

from __future__ import annotations

import onnx

# Operands, by position, that a network knows before it runs: sizes, axes, bounds, weights, scales.
PARAMETERS: dict[str, tuple[int, ...]] = {
    "AffineGrid": (1,), "BatchNormalization": (1, 2, 3, 4), "BlackmanWindow": (0,),
    "CausalConvWithState": (1, 2), "CenterCropPad": (1,), "Clip": (1, 2), "Col2Im": (1, 2),
    "ConstantOfShape": (0,), "Conv": (1, 2), "ConvInteger": (1, 2, 3), "ConvTranspose": (1, 2),
    "CumProd": (1,), "CumSum": (1,), "DFT": (1, 2), "DeformConv": (1, 3),
    "DequantizeLinear": (1, 2), "Dropout": (1, 2), "Expand": (1,), "GRU": (1, 2, 3),
    "Gemm": (1, 2), "GroupNormalization": (1, 2), "HammingWindow": (0,), "HannWindow": (0,),
    "InstanceNormalization": (1, 2), "LSTM": (1, 2, 3, 7), "LayerNormalization": (1, 2),
    "Loop": (0,), "MatMulInteger": (2, 3), "MaxUnpool": (2,), "MelWeightMatrix": (0, 1, 2, 3, 4),
    "NegativeLogLikelihoodLoss": (2,), "NonMaxSuppression": (2, 3, 4), "OneHot": (1, 2),
    "PRelu": (1,), "Pad": (1, 2, 3), "QLinearConv": (1, 2, 3, 4, 5, 6, 7, 8),
    "QLinearMatMul": (1, 2, 4, 5, 6, 7), "QuantizeLinear": (1, 2), "RMSNormalization": (1,),
    "RNN": (1, 2, 3), "Range": (0, 1, 2), "ReduceL1": (1,), "ReduceL2": (1,),
    "ReduceLogSum": (1,), "ReduceLogSumExp": (1,), "ReduceMax": (1,), "ReduceMean": (1,),
    "ReduceMin": (1,), "ReduceProd": (1,), "ReduceSum": (1,), "ReduceSumSquare": (1,),
    "Reshape": (1,), "Resize": (1, 2, 3), "STFT": (1, 2, 3), "SequenceAt": (1,),
    "SequenceErase": (1,), "SequenceInsert": (2,), "Slice": (1, 2, 3, 4),
    "SoftmaxCrossEntropyLoss": (2,), "Split": (1,), "SplitToSequence": (1,), "Squeeze": (1,),
    "Tile": (1,), "TopK": (1,), "Trilu": (1,), "Unsqueeze": (1,), "Upsample": (1,),
}  # fmt: skip


def parameters_of(graph: onnx.GraphProto) -> list[str]:
    """Return the inputs of a graph that are parameters of one of its nodes."""
    found = [
        node.input[i]
        for node in graph.node
        for i in PARAMETERS.get(node.op_type, ())
        if i < len(node.input) and node.input[i]
    ]
    return list(dict.fromkeys(found))
