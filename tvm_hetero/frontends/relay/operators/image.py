"""Images in other sizes."""

from __future__ import annotations

from typing import Any

from tvm import relax, topi

from tvm_hetero.frontends.relay.operators.rule_context import (
    Result,
    Rule,
    Site,
    dtype_name,
    shape_of,
)

_METHODS = {
    "nearest_neighbor": "nearest_neighbor",
    "nearest": "nearest_neighbor",
    "bilinear": "linear",
    "linear": "linear",
    "bicubic": "cubic",
    "cubic": "cubic",
    "trilinear": "linear",
}


def _resized(
    site: Site, x: relax.Expr, size: list[int], method: str, coordinates: str, **options: Any
) -> relax.Expr:
    """An image ``NCHW`` in another size, by the library that Relay used too.

    Without a rounding of its own, the nearest value is the one before, but for aligned corners.
    """
    rounding = options.pop("rounding", "") or (
        "round" if coordinates == "align_corners" else "floor"
    )
    resize = relax.op.image.resize2d(
        x,
        tuple(size),
        layout="NCHW",
        method=_METHODS[method],
        coordinate_transformation_mode=coordinates,
        rounding_method=rounding,
        **options,
    )
    return site.emit(resize)


def _upsampling(site: Site) -> Result:
    site.expect(1)
    layout = site.text("layout", "NCHW")
    x = site.permuted(site.tensor(0), layout, "NCHW")
    scale = site.integer("scale", 1)  # of both, in TVM 0.5
    scales = [site.number("scale_h", scale), site.number("scale_w", scale)]
    method = site.choice("method", tuple(_METHODS), "nearest_neighbor")
    coordinates = "align_corners" if site.flag("align_corners", False) else "asymmetric"
    size = [round(n * s) for n, s in zip(shape_of(x)[2:], scales, strict=True)]
    cubic = {"cubic_alpha": -0.5} if _METHODS[method] == "cubic" else {}
    result = _resized(site, x, size, method, coordinates, **cubic)
    return site.permuted(result, "NCHW", layout)


def _upsampling3d(site: Site) -> Result:
    site.expect(1)
    layout = site.text("layout", "NCDHW")
    x = site.permuted(site.tensor(0), layout, "NCDHW")
    scales = [site.number(f"scale_{d}", 1.0) for d in "dhw"]
    method = site.choice("method", ("nearest_neighbor", "trilinear"), "nearest_neighbor")
    modes = ("half_pixel", "align_corners", "asymmetric")
    coordinates = site.choice("coordinate_transformation_mode", modes, "half_pixel")
    size = [round(n * s) for n, s in zip(shape_of(x)[2:], scales, strict=True)]
    rounding = "round" if coordinates == "align_corners" else "floor"
    compute = topi.image.resize3d
    result = site.te(compute, x, [0.0] * 6, size, "NCDHW", _METHODS[method], coordinates, rounding)
    return site.permuted(result, "NCDHW", layout)


def _resize2d(site: Site) -> Result:
    site.ignore("roi", "extrapolation_value")  # of tf_crop_and_resize alone
    rounding = site.choice("rounding_method", ("", "round", "floor", "ceil"), "round")
    alpha, exclude = site.number("cubic_alpha", -0.5), site.integer("cubic_exclude", 0)
    method = site.choice("method", tuple(_METHODS), "linear")
    return _scaled(
        site, method, _coordinates(site),
        rounding=rounding, cubic_alpha=alpha, cubic_exclude=exclude,
    )  # fmt: skip


def _resize(site: Site) -> Result:
    """What `image.resize2d` was before TVM 0.8. In 0.6 it was told whether corners are aligned."""
    site.ignore("bicubic_alpha", "bicubic_exclude")
    rounding = site.choice("rounding_method", ("", "round", "floor", "ceil"), "")
    method = site.choice("method", ("bilinear", "nearest_neighbor"), "bilinear")
    if "align_corners" in site.attributes or site.version.startswith(("0.5", "0.6")):
        coordinates = "align_corners" if site.flag("align_corners", True) else "asymmetric"
    else:
        coordinates = _coordinates(site)
    return _scaled(site, method, coordinates, rounding=rounding)


def _coordinates(site: Site) -> str:
    modes = ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel")
    return site.choice("coordinate_transformation_mode", modes, "half_pixel")


def _scaled(site: Site, method: str, coordinates: str, **options: Any) -> relax.Expr:
    """The image in the size, the layout and the data type that are asked for."""
    site.expect(1)
    layout = site.text("layout", "NCHW")
    x = site.permuted(site.tensor(0), layout, "NCHW")
    size = site.spread("size", 2, 1, least=1)
    result = _resized(site, x, size, method, coordinates, **options)
    dtype = site.dtype("out_dtype")
    if dtype and dtype != dtype_name(result):
        result = site.emit(relax.op.astype(result, dtype))
    return site.permuted(result, "NCHW", layout)


RULES: dict[str, Rule] = {
    "nn.upsampling": _upsampling,
    "nn.upsampling3d": _upsampling3d,
    "image.resize2d": _resize2d,
    "image.resize": _resize,
}
