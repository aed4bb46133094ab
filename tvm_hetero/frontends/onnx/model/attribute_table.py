"""Which attribute and optional operand of which operator is honoured, and by whom: one table.

Each attribute that an operator has in opset 13 or any later one stands in one of four blocks.
(Models of older opsets are converted to 13 first, `opsets`, which states what forms of before 11
mean by Resize.)

    OURS        by a rewriter (`expansion`), a converter (`conversion`) or by folding
    TVMS        by TVM's importer; each is compared with ONNX Runtime in the tests
    NO_EFFECT   by no one, since it changes no result at inference
    REFUSED     by no one, so a node with it is refused

An attribute that is in none, which a newer onnx may know, is refused, too (`refused_attribute`).
Operators of no block have no attributes, or are written out by their body in onnx, which reads what
there is (`expansion.functions`).  OPERANDS are the optional operands; every one is honoured, and
those that must be constant are refused by name where they are not.

A test compares all of this with the schemas of onnx: who adds an operator adds its line here.
"""

from __future__ import annotations

from collections.abc import Mapping

from onnx import NodeProto

from tvm_hetero.util.untrusted_names import printable


def _table(text: str) -> Mapping[str, frozenset[str]]:
    """Read lines ``Operator: name name``; what is indented further goes on."""
    found: dict[str, frozenset[str]] = {}
    operator = ""
    for line in text.splitlines():
        names = line
        if ":" in line:
            operator, names = line.strip().split(":")
            found[operator] = frozenset()
        found[operator] |= frozenset(names.split())
    return found


OURS = _table(
    """\
    Attention: is_causal kv_num_heads left_window_size q_num_heads qk_matmul_output_mode
        right_window_size scale softcap softmax_precision
    AveragePool: auto_pad ceil_mode dilations kernel_shape pads strides
    BatchNormalization: epsilon momentum training_mode
    BitCast: to
    BitShift: direction
    Cast: round_mode saturate to
    CastLike: round_mode saturate
    Celu: alpha
    Col2Im: dilations pads strides
    Compress: axis
    ConcatFromSequence: axis new_axis
    Constant: value value_float value_floats value_int value_ints
    Conv: auto_pad dilations kernel_shape pads strides
    ConvInteger: auto_pad dilations group kernel_shape pads strides
    ConvTranspose: auto_pad dilations kernel_shape output_padding output_shape pads strides
    CumProd: exclusive reverse
    CumSum: exclusive reverse
    DFT: axis inverse onesided
    DeformConv: dilations group offset_group pads strides
    DequantizeLinear: axis block_size output_dtype
    EyeLike: dtype k
    GRU: activation_alpha activation_beta activations clip direction hidden_size layout
        linear_before_reset
    HardSigmoid: alpha beta
    If: else_branch then_branch
    IsInf: detect_negative detect_positive
    LRN: alpha beta bias size
    LSTM: activation_alpha activation_beta activations clip direction hidden_size input_forget
        layout
    LayerNormalization: axis epsilon stash_type
    Loop: body
    LpNormalization: axis p
    LpPool: auto_pad ceil_mode dilations kernel_shape p pads strides
    MaxPool: auto_pad ceil_mode dilations kernel_shape pads storage_order strides
    MaxUnpool: kernel_shape pads strides
    MelWeightMatrix: output_datatype
    Mod: fmod
    NonMaxSuppression: center_point_box
    OneHot: axis
    Pad: mode
    QLinearConv: auto_pad dilations group kernel_shape pads strides
    QuantizeLinear: axis block_size output_dtype precision saturate
    RMSNormalization: axis epsilon stash_type
    RNN: activation_alpha activation_beta activations clip direction hidden_size layout
    Range: stash_type
    ReduceLogSumExp: axes keepdims noop_with_empty_axes
    ReduceMax: axes keepdims noop_with_empty_axes
    ReduceMin: axes keepdims noop_with_empty_axes
    Resize: antialias axes coordinate_transformation_mode cubic_coeff_a exclude_outside
        extrapolation_value keep_aspect_ratio_policy mode nearest_mode
    ReverseSequence: batch_axis time_axis
    RoiAlign: coordinate_transformation_mode mode output_height output_width sampling_ratio
        spatial_scale
    STFT: onesided
    Scan: body num_scan_inputs scan_input_axes scan_input_directions scan_output_axes
        scan_output_directions
    SequenceEmpty: dtype
    SequenceMap: body
    SpaceToDepth: blocksize mode
    Split: axis
    SplitToSequence: axis keepdims
    TensorScatter: axis mode
    ThresholdedRelu: alpha
    TopK: axis largest
"""
)

TVMS = _table(
    """\
    AffineGrid: align_corners
    ArgMax: axis keepdims select_last_index
    ArgMin: axis keepdims select_last_index
    AveragePool: count_include_pad
    Concat: axis
    ConstantOfShape: value
    Conv: group
    ConvTranspose: group
    DepthToSpace: blocksize mode
    Einsum: equation
    Elu: alpha
    Flatten: axis
    Gather: axis
    GatherElements: axis
    GatherND: batch_dims
    Gelu: approximate
    Gemm: alpha beta transA transB
    GlobalLpPool: p
    GridSample: align_corners mode padding_mode
    GroupNormalization: epsilon num_groups stash_type
    Hardmax: axis
    InstanceNormalization: epsilon
    LeakyRelu: alpha
    LogSoftmax: axis
    MaxRoiPool: pooled_shape spatial_scale
    MeanVarianceNormalization: axes
    Optional: type
    ReduceL1: axes keepdims noop_with_empty_axes
    ReduceL2: axes keepdims noop_with_empty_axes
    ReduceLogSum: axes keepdims noop_with_empty_axes
    ReduceMean: axes keepdims noop_with_empty_axes
    ReduceProd: axes keepdims noop_with_empty_axes
    ReduceSum: keepdims noop_with_empty_axes
    ReduceSumSquare: axes keepdims noop_with_empty_axes
    Reshape: allowzero
    Scatter: axis
    ScatterElements: axis reduction
    ScatterND: reduction
    Selu: alpha gamma
    Shape: end start
    Shrink: bias lambd
    Softmax: axis
    Split: num_outputs
    TopK: sorted
    Transpose: perm
    Trilu: upper
    Unique: axis sorted
    Upsample: mode
"""
)

NO_EFFECT = _table(
    """\
    DeformConv: kernel_shape
    Dropout: seed
"""
)

REFUSED = _table("Constant: sparse_value value_string value_strings")

OPERANDS = _table(
    """\
    Attention: attn_mask nonpad_kv_seqlen past_key past_value
    Clip: min max
    Conv: B
    ConvInteger: x_zero_point w_zero_point
    ConvTranspose: B
    DFT: dft_length axis
    DeformConv: B mask
    DequantizeLinear: x_zero_point
    Dropout: ratio training_mode
    GRU: B sequence_lens initial_h
    Gemm: C
    LSTM: B sequence_lens initial_h initial_c P
    LayerNormalization: B
    Loop: M cond
    MatMulInteger: a_zero_point b_zero_point
    MaxUnpool: output_shape
    NonMaxSuppression: max_output_boxes_per_class iou_threshold score_threshold
    Optional: input
    OptionalHasElement: input
    Pad: constant_value axes
    QLinearConv: B
    QuantizeLinear: y_zero_point
    RNN: B sequence_lens initial_h
    ReduceL1: axes
    ReduceL2: axes
    ReduceLogSum: axes
    ReduceLogSumExp: axes
    ReduceMax: axes
    ReduceMean: axes
    ReduceMin: axes
    ReduceProd: axes
    ReduceSum: axes
    ReduceSumSquare: axes
    Resize: roi scales sizes
    STFT: window frame_length
    SequenceErase: position
    SequenceInsert: position
    Slice: axes steps
    Split: split
    SplitToSequence: split
    Squeeze: axes
    TensorScatter: write_indices
    Trilu: k
"""
)


def honoured(operator: str) -> frozenset[str]:
    """Return the attributes of a standard operator that may be given."""
    nothing: frozenset[str] = frozenset()
    return nothing.union(*(table.get(operator, nothing) for table in (OURS, TVMS, NO_EFFECT)))


def refused_attribute(node: NodeProto) -> str | None:
    """Return why a node of a standard operator cannot be taken, None if nothing is said against it.

    Parameters
    ----------
    node : NodeProto
        Of the default domain.
    """
    known = honoured(node.op_type)
    if not known:
        return None
    for given in node.attribute:
        if given.name not in known:
            return (
                f"has the attribute {printable(given.name)}, which is not honoured, so the result "
                "would be wrong. Export the model without it, or with other operators in its place."
            )
    return None
