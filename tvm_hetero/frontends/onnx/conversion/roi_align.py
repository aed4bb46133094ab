"""``RoiAlign`` that takes the largest: of all corners of all samples, each times its weight.

That is what onnx and ONNX Runtime compute; TVM takes the largest of interpolated samples.  The
average of a given number of samples is TVM's own.  Where the regions say how many there are, one
that ends before it begins has none, and is 0: of a sum of no rounds TVM writes nothing, and what
comes out is what the memory held.  Regions come scaled (`expansion.windows`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tvm_hetero.frontends.onnx.conversion.conversion import Conversion
from tvm_hetero.frontends.onnx.conversion.registry import converts

if TYPE_CHECKING:
    from tvm import relax, te

_HALF_PIXEL_IS_DEFAULT = 16


@converts("RoiAlign")
def convert_roi_align(c: Conversion) -> relax.Expr | None:
    """Join the corners of each bin's samples."""
    average, ratio = c.attribute("mode", "avg") != "max", int(c.attribute("sampling_ratio", 0))
    if average and ratio > 0:
        return None
    default = "half_pixel" if c.opset >= _HALF_PIXEL_IS_DEFAULT else "output_half_pixel"
    half = c.attribute("coordinate_transformation_mode", default) == "half_pixel"
    shape = (c.attribute("output_height", 1), c.attribute("output_width", 1))

    def roi_align(x: te.Tensor, rois: te.Tensor, batches: te.Tensor) -> te.Tensor:
        bins = _Bins(rois, shape, ratio, half)
        return _averages(x, batches, bins) if average else _largest_corners(x, batches, bins)

    return c.emit_te(
        roi_align, c.operand(0), c.operand(1), c.operand(2), primfunc_name_hint="roi_align"
    )


@dataclass(frozen=True)
class _Bins:
    """Where the samples of each region's bins lie, and how many there are.

    Attributes
    ----------
    ratio : int
        Samples of a bin along each axis; 0 where each has as many as it has pixels.
    half : bool
        Whether pixels lie at halves; else no region is smaller than a pixel.
    """

    rois: te.Tensor
    shape: tuple[int, int]
    ratio: int
    half: bool

    def length(self, i: Any, d: int) -> tuple[Any, Any]:
        """Return where region `i` begins along an axis, and the length of a bin."""
        from tvm import tirx

        dtype = str(self.rois.dtype)
        offset = tirx.const(0.5 if self.half else 0.0, dtype)
        # A region is x1, y1, x2, y2.
        start = self.rois[i, 1 - d] - offset
        length = self.rois[i, 3 - d] - offset - start
        if not self.half:
            length = tirx.Max(length, tirx.const(1, dtype))
        return start, length / tirx.const(self.shape[d], dtype)

    def count(self, i: Any, d: int) -> Any:
        """Return the number of samples along an axis, which may be none or less."""
        from tvm import tirx

        if self.ratio > 0:
            return tirx.const(self.ratio, "int32")
        return tirx.ceil(self.length(i, d)[1]).astype("int32")

    def samples(self, i: Any, places: tuple[Any, Any]) -> tuple[list[Any], list[Any]]:
        """Return where samples of a bin lie, and the axes that count them: at least one each."""
        from tvm import te, tirx

        dtype = str(self.rois.dtype)
        axes, samples = [], []
        for d, place in enumerate(places):
            start, size = self.length(i, d)
            count = tirx.Max(self.count(i, d), tirx.const(1, "int32"))
            k = te.reduce_axis((0, count), f"s{d}")
            step = (k.astype(dtype) + tirx.const(0.5, dtype)) * size / count.astype(dtype)
            samples.append(start + place.astype(dtype) * size + step)
            axes.append(k)
        return samples, axes


def _largest_corners(x: te.Tensor, batches: te.Tensor, bins: _Bins) -> te.Tensor:
    from tvm import te, tirx

    def largest(i: Any, ch: Any, ph: Any, pw: Any) -> Any:
        samples, axes = bins.samples(i, (ph, pw))
        outside, corners = _corners(x, batches[i].astype("int32"), ch, samples)
        found = corners[0]
        for corner in corners[1:]:
            found = tirx.Max(found, corner)
        zero = tirx.const(0, x.dtype)
        return te.max(tirx.if_then_else(outside, zero, found), axis=axes)

    shape = (bins.rois.shape[0], x.shape[1], *bins.shape)
    return _of_some(te.compute(shape, largest, name="roi_align_max"), bins, divided=False)


def _averages(x: te.Tensor, batches: te.Tensor, bins: _Bins) -> te.Tensor:
    from tvm import te, tirx

    def total(i: Any, ch: Any, ph: Any, pw: Any) -> Any:
        samples, axes = bins.samples(i, (ph, pw))
        outside, corners = _corners(x, batches[i].astype("int32"), ch, samples)
        found = corners[0] + corners[1] + corners[2] + corners[3]
        return te.sum(tirx.if_then_else(outside, tirx.const(0, x.dtype), found), axis=axes)

    shape = (bins.rois.shape[0], x.shape[1], *bins.shape)
    return _of_some(te.compute(shape, total, name="roi_align_sum"), bins, divided=True)


def _of_some(found: te.Tensor, bins: _Bins, *, divided: bool) -> te.Tensor:
    """Return what was found, over the number of samples if `divided`; 0 where there are none."""
    from tvm import te, tirx

    def value(*at: Any) -> Any:
        rows, columns = (bins.count(at[0], d) for d in (0, 1))
        count = tirx.Max(rows * columns, tirx.const(1, "int32")).astype(str(found.dtype))
        result = found[at] / count if divided else found[at]
        nothing = tirx.any(rows <= 0, columns <= 0)
        return tirx.if_then_else(nothing, tirx.const(0, found.dtype), result)

    return te.compute(found.shape, value, name="roi_align")


def _corners(x: te.Tensor, batch: Any, ch: Any, at: list[Any]) -> tuple[Any, list[Any]]:
    """Return whether a sample lies outside, and its four corners, each times its weight."""
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
    return outside, corners
