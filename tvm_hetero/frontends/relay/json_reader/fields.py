"""What the fields of attribute classes are, which a saved graph does not say.

In a saved graph every attribute is a text, and what it means depends on the C++ type of the
field: of a number, truth value or data type it is the value itself, of an object it is the number
of a node. ``"axis": "1"`` is axis 1 in ``BiasAddAttrs`` and node 1 in ``TakeAttrs``. Fields that
are plain are listed here by class; all others are objects. Texts were plain at first and became
objects later, so for them the reader looks at the node: no layout or mode is called ``"12"``.
"""

from __future__ import annotations

import re

# One class a line: fields that are an int (i), a float (f), a truth value (b), a text (s) or a
# data type (d). A field that was plain in some versions and an object in others: (n), see
# `graph_attributes`.
_CLASSES = """
BiasAddAttrs axis:i
Conv1DAttrs groups:i data_layout:s kernel_layout:s out_layout:s out_dtype:d
Conv2DAttrs groups:i data_layout:s kernel_layout:s out_layout:s out_dtype:d
Conv3DAttrs groups:i data_layout:s kernel_layout:s out_layout:s out_dtype:d
Conv1DTransposeAttrs groups:i data_layout:s kernel_layout:s out_layout:s out_dtype:d
Conv2DTransposeAttrs groups:i data_layout:s kernel_layout:s out_layout:s out_dtype:d
Conv3DTransposeAttrs groups:i data_layout:s kernel_layout:s out_layout:s out_dtype:d
MaxPool1DAttrs layout:s out_layout:s ceil_mode:b
MaxPool2DAttrs layout:s out_layout:s ceil_mode:b
MaxPool3DAttrs layout:s out_layout:s ceil_mode:b
AvgPool1DAttrs layout:s out_layout:s ceil_mode:b count_include_pad:b
AvgPool2DAttrs layout:s out_layout:s ceil_mode:b count_include_pad:b
AvgPool3DAttrs layout:s out_layout:s ceil_mode:b count_include_pad:b
GlobalPool2DAttrs layout:s out_layout:s
AdaptivePool1DAttrs layout:s out_layout:s
AdaptivePool2DAttrs layout:s out_layout:s
AdaptivePool3DAttrs layout:s out_layout:s
DenseAttrs out_dtype:d auto_scheduler_rewritten_layout:s
MatmulAttrs out_dtype:d transpose_a:b transpose_b:b auto_scheduler_rewritten_layout:s
BatchMatmulAttrs out_dtype:d transpose_a:b transpose_b:b auto_scheduler_rewritten_layout:s
SoftmaxAttrs axis:i
BatchNormAttrs axis:i epsilon:f center:b scale:b
LayerNormAttrs axis:i epsilon:f center:b scale:b
InstanceNormAttrs axis:i epsilon:f center:b scale:b
GroupNormAttrs num_groups:i axis:i epsilon:f center:b scale:b
LRNAttrs size:i axis:i bias:f alpha:f beta:f
L2NormalizeAttrs eps:f
DropoutAttrs rate:f
LeakyReluAttrs alpha:f
PReluAttrs axis:i
PadAttrs pad_value:f pad_mode:s
MirrorPadAttrs mode:s
UpSamplingAttrs scale:i scale_h:f scale_w:f layout:s method:s align_corners:b
UpSampling3DAttrs scale_d:f scale_h:f scale_w:f layout:s method:s coordinate_transformation_mode:s
SubPixelAttrs block_size:i layout:s mode:s
Resize2DAttrs layout:s method:s coordinate_transformation_mode:s rounding_method:s cubic_alpha:f \
cubic_exclude:i extrapolation_value:f out_dtype:d
ResizeAttrs layout:s method:s coordinate_transformation_mode:s rounding_method:s bicubic_alpha:f \
bicubic_exclude:i out_dtype:d align_corners:b
CastAttrs dtype:d
ExpandDimsAttrs axis:i num_newaxis:i
ConcatenateAttrs axis:i
StackAttrs axis:n
ReshapeAttrs reverse:b allowzero:b
ReshapeLikeAttrs lhs_begin:i rhs_begin:i
TakeAttrs mode:s
InitOpAttrs dtype:d
ArangeAttrs dtype:d
SplitAttrs axis:i
StridedSliceAttrs slice_mode:s
ClipAttrs a_min:f a_max:f
LayoutTransformAttrs src_layout:s dst_layout:s
ShapeOfAttrs dtype:d
NdarraySizeAttrs dtype:d
SequenceMaskAttrs mask_value:f axis:i
OneHotAttrs depth:i axis:i dtype:d
ReduceAttrs keepdims:b exclude:b
ArgReduceAttrs keepdims:b exclude:b select_last_index:b
VarianceAttrs keepdims:b exclude:b unbiased:b
ScanopAttrs dtype:d
ArgsortAttrs axis:i is_ascend:b dtype:d
TopkAttrs k:n axis:i is_ascend:b ret_type:s dtype:d
TriluAttrs upper:b
MeshgridAttrs indexing:s
OnDeviceAttrs device_type:i constrain_body:b constrain_result:b is_fixed:b
DeviceCopyAttrs src_dev_type:i dst_dev_type:i
TransposeAttrs
TileAttrs
SqueezeAttrs
RepeatAttrs
ReverseAttrs
ReverseSequenceAttrs
SliceLikeAttrs
GatherAttrs
GatherNDAttrs
ScatterAttrs
ScatterAddAttrs
ScatterElementsAttrs reduction:s
ScatterNDAttrs mode:s
"""


def _table() -> dict[str, dict[str, str]]:
    lines = _CLASSES.replace("\\\n", "").strip().splitlines()
    rows = (line.split() for line in lines)
    return {name: dict(field.split(":") for field in fields) for name, *fields in rows}


FIELDS = _table()


def kind_of(type_key: str, field: str) -> str:
    """What a field of an attribute class is: ``i f b s d n``, ``o`` for an object, or ``?``.

    The last is for classes that are not known: of operators that are not taken, then.
    """
    fields = FIELDS.get(re.sub(r"^relay\.attrs\.", "", type_key))
    return "?" if fields is None else fields.get(field, "o")


def is_attributes(type_key: str) -> bool:
    """Whether a node of this type holds an operator's attributes."""
    return type_key.startswith("relay.attrs.") or type_key == "DictAttrs"
