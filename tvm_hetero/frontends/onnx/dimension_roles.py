"""What an open dimension is likely to be, and which sizes it is likely to have.

An error that asks for shapes shall name some that work.  What a dimension stands for is read off
its symbol (``height``, ``seq_len``), else off its place: of four dimensions the first is the batch,
the second channels, the others an image.  Files often say in their metadata for which size they
were made.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import onnx
from onnx import NodeProto, TensorProto, ValueInfoProto

BATCH, CHANNELS, IMAGE, SEQUENCE, SAMPLES = "batch", "channels", "image", "sequence", "samples"

_WORDS = (
    (BATCH, r"batch|^n$|^b$|^bs$"),
    (IMAGE, r"height|width|^h$|^w$|image|img"),
    (SAMPLES, r"sample|audio|wave|pcm"),
    (SEQUENCE, r"seq|len|token|frame|time|past|^t$|^l$"),
    (CHANNELS, r"channel|^c$"),
)
# Heights and widths; of lines of text the height is what the network was made for.
_IMAGES = (
    (224, 224), (640, 640), (320, 320), (48, 320), (32, 320),
    *((n, n) for n in (256, 512, 299, 227, 384, 416, 128, 112, 96, 64, 48, 32, 28)),
)  # fmt: skip
_SIZES: dict[str, tuple[int, ...]] = {
    BATCH: (1,),
    CHANNELS: (3, 1),
    SEQUENCE: (16, 128, 1, 64, 77, 256, 512, 32),
    SAMPLES: (512, 16000, 1024, 4096, 1536, 32000),
}
_SIZE_KEYS = re.compile(r"imgsz|image_?size|input_?(size|shape)|height|width", re.IGNORECASE)


def role_of(value: ValueInfoProto, axis: int) -> str:
    """Return what the dimension `axis` of an input is likely to be."""
    dims = value.type.tensor_type.shape.dim
    symbol = dims[axis].dim_param.lower()
    for role, words in _WORDS:
        if re.search(words, symbol):
            return role
    floats = value.type.tensor_type.elem_type in (TensorProto.FLOAT, TensorProto.FLOAT16)
    if len(dims) >= 4:
        last = len(dims) - 1 if _channels_last(dims) else 1
        return BATCH if axis == 0 else CHANNELS if axis == last else IMAGE
    if axis == 0 and (len(dims) > 1 or not floats):
        return BATCH
    if axis == 1 and len(dims) == 3 and dims[0].dim_value > 1 and dims[2].dim_value:
        return BATCH  # a recurrent layer's state: layers, batch, width
    return SAMPLES if floats and len(dims) < 3 else SEQUENCE


def _channels_last(dims: Sequence[onnx.TensorShapeProto.Dimension]) -> bool:
    return dims[-1].dim_value in (1, 3, 4) and not dims[1].dim_value


def image_sizes(model: onnx.ModelProto, fixed: Sequence[int]) -> list[tuple[int, int]]:
    """Return heights and widths to try: of the metadata, of other dimensions, usual ones.

    Parameters
    ----------
    model : onnx.ModelProto
        With its metadata.
    fixed : sequence of int
        Sizes of image dimensions that are not open.
    """
    noted = {p.key.lower(): _numbers(p.value) for p in model.metadata_props}
    found = []
    if len(noted.get("height", [])) == len(noted.get("width", [])) == 1:
        found.append((noted["height"][0], noted["width"][0]))
    for key, numbers in noted.items():
        sizes = [n for n in numbers if n >= 8]
        if _SIZE_KEYS.search(key) and sizes:
            found.append((sizes[0], sizes[-1]))
    found += [*((size, size) for size in fixed), *_IMAGES]
    return list(dict.fromkeys(found))


def _numbers(text: str) -> list[int]:
    return [int(n) for n in re.findall(r"\d{1,5}", text)[:4]]


def usual_sizes(role: str) -> tuple[int, ...]:
    """Return sizes to try for a dimension that is none of an image."""
    return _SIZES[role]


def convolved_channels(
    name: str, nodes: Sequence[NodeProto], constants: Mapping[str, TensorProto]
) -> tuple[int, int] | None:
    """Return rank and channels of an input as the first convolution that reads it wants them."""
    for node in nodes:
        if node.op_type != "Conv" or node.input[0] != name or node.input[1] not in constants:
            continue
        weights = constants[node.input[1]].dims
        groups = next((a.i for a in node.attribute if a.name == "group"), 1)
        return len(weights), weights[1] * groups
    return None
