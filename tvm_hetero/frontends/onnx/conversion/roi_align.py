"""``RoiAlign`` that takes the largest: of all corners of all samples, each times its weight.

That is what onnx and ONNX Runtime compute; TVM takes the largest of interpolated samples.  The
average is TVM's own.  Regions come scaled (`expansion.windows`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tvm_hetero.frontends.onnx.conversion.conversion import Conversion
from tvm_hetero.frontends.onnx.conversion.registry import converts

if TYPE_CHECKING:
    from tvm import relax, te

_HALF_PIXEL_IS_DEFAULT = 16


@converts("RoiAlign")
def convert_roi_align(c: Conversion) -> relax.Expr | None:
    """Take the largest corner of each bin's samples."""
    if c.attribute("mode", "avg") != "max":
        return None
    default = "half_pixel" if c.opset >= _HALF_PIXEL_IS_DEFAULT else "output_half_pixel"
    half = c.attribute("coordinate_transformation_mode", default) == "half_pixel"
    shape = (c.attribute("output_height", 1), c.attribute("output_width", 1))
    ratio = int(c.attribute("sampling_ratio", 0))

    def roi_align(x: te.Tensor, rois: te.Tensor, batches: te.Tensor) -> te.Tensor:
        return _largest_corners(x, rois, batches, shape, ratio, half=half)

    return c.emit_te(
        roi_align, c.operand(0), c.operand(1), c.operand(2), primfunc_name_hint="roi_align_max"
    )


def _largest_corners(
    x: te.Tensor,
    rois: te.Tensor,
    batches: te.Tensor,
    shape: tuple[int, int],
    ratio: int,
    *,
    half: bool,
) -> te.Tensor:
    from tvm import te, tirx

    dtype = str(x.dtype)
    offset = tirx.const(0.5 if half else 0.0, dtype)

    def largest(i: Any, ch: Any, ph: Any, pw: Any) -> Any:
        axes, samples, counts = [], [], []
        for d, place in ((0, ph), (1, pw)):
            # A region is x1, y1, x2, y2.
            start = rois[i, 1 - d] - offset
            length = rois[i, 3 - d] - offset - start
            if not half:
                length = tirx.Max(length, tirx.const(1, dtype))
            size = length / tirx.const(shape[d], dtype)
            count = tirx.const(ratio, "int32") if ratio > 0 else tirx.ceil(size).astype("int32")
            k = te.reduce_axis((0, count), f"s{d}")
            step = (k.astype(dtype) + tirx.const(0.5, dtype)) * size / count.astype(dtype)
            samples.append(start + place.astype(dtype) * size + step)
            axes.append(k)
            counts.append(count)
        value = _corner(x, batches[i].astype("int32"), ch, samples)
        return te.max(value, axis=axes)

    return te.compute((rois.shape[0], x.shape[1], *shape), largest, name="roi_align_max")


def _corner(x: te.Tensor, batch: Any, ch: Any, at: list[Any]) -> Any:
    """Return the largest of a sample's four corners, each times its weight; 0 outside."""
    from tvm import tirx

    dtype = str(x.dtype)
    lows, highs, shares = [], [], []
    outside = tirx.const(False, "bool")
    for d in (0, 1):
        extent = int(x.shape[2 + d])
        outside = tirx.any(
            outside, at[d] < tirx.const(-1, dtype), at[d] > tirx.const(extent, dtype)
        )
        clamped = tirx.Min(tirx.Max(at[d], tirx.const(0, dtype)), tirx.const(extent - 1, dtype))
        low = tirx.Min(tirx.floor(clamped).astype("int32"), extent - 1)
        lows.append(low)
        highs.append(tirx.Min(low + 1, extent - 1))
        shares.append(clamped - low.astype(dtype))
    one = tirx.const(1, dtype)
    weights = [(one - share, share) for share in shares]
    places = list(zip(lows, highs, strict=True))
    corners = [
        weights[0][a] * weights[1][b] * x[batch, ch, places[0][a], places[1][b]]
        for a in (0, 1)
        for b in (0, 1)
    ]
    found = corners[0]
    for corner in corners[1:]:
        found = tirx.Max(found, corner)
    return tirx.if_then_else(outside, tirx.const(0, dtype), found)
