"""Pooling: windows, the whole image, and windows that follow from the size of the output."""

from __future__ import annotations

from typing import Any

from tvm import relax, topi

from tvm_hetero.frontends.relay.operators.convolution import read_padding
from tvm_hetero.frontends.relay.operators.rule_context import Result, Rule, Site, shape_of

_LAYOUTS = {1: "NCW", 2: "NCHW", 3: "NCDHW"}
_WINDOWS: dict[tuple[str, int], Any] = {
    ("max", 1): relax.op.nn.max_pool1d,
    ("max", 2): relax.op.nn.max_pool2d,
    ("max", 3): relax.op.nn.max_pool3d,
    ("avg", 1): relax.op.nn.avg_pool1d,
    ("avg", 2): relax.op.nn.avg_pool2d,
    ("avg", 3): relax.op.nn.avg_pool3d,
}


def _first(site: Site, dims: int) -> tuple[relax.Expr, str]:
    """The data with channels first, and the layout in which the result is wanted."""
    layout = site.text("layout", _LAYOUTS[dims])
    return site.permuted(site.tensor(0), layout, _LAYOUTS[dims]), (
        site.text("out_layout", "") or layout
    )


def _pool(kind: str, dims: int) -> Rule:
    def rule(site: Site) -> Result:
        site.expect(1)
        data, wanted = _first(site, dims)
        options = {"count_include_pad": site.flag("count_include_pad", False)} if (
            kind == "avg"
        ) else {}  # fmt: skip
        result = _WINDOWS[kind, dims](
            data,
            pool_size=site.spread("pool_size", dims, 1, least=1),
            strides=site.spread("strides", dims, 1, least=1),
            padding=read_padding(site, dims),
            dilation=site.spread("dilation", dims, 1, least=1),
            ceil_mode=site.flag("ceil_mode", False),
            layout=_LAYOUTS[dims],
            **options,
        )
        return site.permuted(site.emit(result), _LAYOUTS[dims], wanted)

    return rule


def _global(kind: str, dims: int) -> Rule:
    reduce = relax.op.max if kind == "max" else relax.op.mean

    def rule(site: Site) -> Result:
        site.expect(1)
        data, wanted = _first(site, dims)
        axes = list(range(2, 2 + dims))
        return site.permuted(
            site.emit(reduce(data, axis=axes, keepdims=True)), _LAYOUTS[dims], wanted
        )

    return rule


def _adaptive(kind: str, dims: int) -> Rule:
    def rule(site: Site) -> Result:
        site.expect(1)
        data, wanted = _first(site, dims)
        given = shape_of(data)[2:]
        size = site.ints("output_size", None) or given
        size = list(size) * dims if len(size) == 1 else list(size)
        if len(size) != dims:
            raise site.error(f"output_size={size}, expected {dims} numbers")
        if min(size) < 1:
            raise site.error(f"output_size={size}, expected 1 or more")
        if size == given:
            result = data
        elif all(n % m == 0 for n, m in zip(given, size, strict=True)):
            window = [n // m for n, m in zip(given, size, strict=True)]
            result = site.emit(
                _WINDOWS[kind, dims](data, window, strides=window, layout=_LAYOUTS[dims])
            )
        else:
            pool = {1: topi.nn.adaptive_pool1d, 2: topi.nn.adaptive_pool}.get(
                dims, topi.nn.adaptive_pool3d
            )
            result = site.te(pool, data, size, kind, _LAYOUTS[dims])
        return site.permuted(result, _LAYOUTS[dims], wanted)

    return rule


RULES: dict[str, Rule] = {
    **{f"nn.{kind}_pool{dims}d": _pool(kind, dims) for kind, dims in _WINDOWS},
    **{f"nn.global_{kind}_pool{dims}d": _global(kind, dims) for kind, dims in _WINDOWS},
    **{f"nn.adaptive_{kind}_pool{dims}d": _adaptive(kind, dims) for kind, dims in _WINDOWS},
}
