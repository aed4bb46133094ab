"""Matrix products."""

from __future__ import annotations

import re

from tvm import relax

from tvm_hetero.frontends.relay.operators.rule_context import Result, Rule, Site, shape_of

# What the auto-scheduler and MetaSchedule of the old TVM noted about a layout: right where empty.
_REWRITTEN = ("auto_scheduler_rewritten_layout", "meta_schedule_original_shape")


def _plain(site: Site) -> None:
    for name in _REWRITTEN:
        site.require(name, ["", None, []])


def _turned(site: Site, value: relax.Expr, turn: bool) -> relax.Expr:
    """The last two dimensions exchanged."""
    if not turn:
        return value
    rank = len(shape_of(value))
    return site.emit(relax.op.permute_dims(value, [*range(rank - 2), rank - 1, rank - 2]))


def _product(site: Site, a: relax.Expr, b: relax.Expr) -> relax.Expr:
    return site.emit(relax.op.matmul(a, b, out_dtype=site.dtype("out_dtype")))


def _dense(site: Site) -> Result:
    site.expect(2)
    _plain(site)
    units = site.integer("units", None)
    if site.rank(1) != 2 or (units is not None and units != site.shape(1)[0]):
        raise site.error(f"units={units}, but the weights are {site.shape(1)}")
    return _product(site, site.tensor(0), _turned(site, site.tensor(1), True))


def _matmul(site: Site) -> Result:
    site.expect(2)
    _plain(site)
    a = _turned(site, site.tensor(0), site.flag("transpose_a", False))
    b = _turned(site, site.tensor(1), site.flag("transpose_b", False))
    units = site.integer("units", None)
    if units is not None and units != shape_of(b)[-1]:
        raise site.error(f"units={units}, but the product has {shape_of(b)[-1]} columns")
    return _product(site, a, b)


def _batch_matmul(site: Site) -> Result:
    """Before there were attributes the second was always transposed. See `_turns_second`."""
    site.expect(2)
    _plain(site)
    a = _turned(site, site.tensor(0), site.flag("transpose_a", False))
    b = _turned(site, site.tensor(1), _turns_second(site, a))
    return _product(site, a, b)


def _turns_second(site: Site, a: relax.Expr) -> bool:
    """Whether a ``batch_matmul`` turns its second operand.

    A text leaves out what is the default: of 0.7 and older, which had no attributes, that the
    second is turned, of newer ones that it is not. The shapes tell mostly, else the version.
    """
    if site.value("transpose_b", None) is not None:
        return site.flag("transpose_b", True)
    inner, (rows, columns) = shape_of(a)[-1], site.shape(1)[-2:]
    if rows != columns:
        return columns == inner
    version = re.findall(r"\d+", site.version)[:2]
    if version:
        return [int(n) for n in version] < [0, 8]
    if "transpose_a" in site.attributes:  # which only newer ones have
        return False
    raise site.error(
        "nothing says whether the second operand, a square, is transposed: TVM 0.7 meant so, 0.8 "
        "meant not; write transpose_b=True or transpose_b=False there"
    )


RULES: dict[str, Rule] = {
    "nn.dense": _dense,
    "nn.matmul": _matmul,
    "nn.batch_matmul": _batch_matmul,
}
