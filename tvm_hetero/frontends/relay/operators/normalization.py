"""Normalizations and softmax. What is constant about them is computed here, in double."""

from __future__ import annotations

import math

import numpy as np
from tvm import relax

from tvm_hetero.frontends.relay.operators.elementwise import broadcast_along, reshape, scalar
from tvm_hetero.frontends.relay.operators.rule_context import (
    Result,
    Rule,
    Site,
    constant,
    dtype_name,
    shape_of,
)


def _batch_norm(site: Site) -> Result:
    """``scale * x + shift`` with the moving statistics, which are the other two outputs."""
    site.expect(5)
    x, rank = site.tensor(0), site.rank()
    axis = site.axis(site.integer("axis", 1), rank)
    epsilon = site.number("epsilon", 1e-5)
    center, scaled = site.flag("center", True), site.flag("scale", True)
    known = [site.known(i) for i in range(1, 5)]
    if all(value is not None for value in known):
        gamma, beta, mean, variance = (np.asarray(v, "float64") for v in known)
        factor = (gamma if scaled else 1.0) / np.sqrt(variance + epsilon)
        offset = (beta if center else 0.0) - mean * factor
        scale, shift = (constant(v.astype(dtype_name(x))) for v in (factor, offset))
    else:
        scale, shift = _affine(site, epsilon, center, scaled)
    y = site.emit(relax.op.multiply(x, broadcast_along(site, scale, axis, rank)))
    y = site.emit(relax.op.add(y, broadcast_along(site, shift, axis, rank)))
    return [y, site.tensor(3), site.tensor(4)]


def _affine(
    site: Site, epsilon: float, center: bool, scaled: bool
) -> tuple[relax.Expr, relax.Expr]:
    gamma, beta, mean, variance = (site.tensor(i) for i in range(1, 5))
    deviation = site.emit(
        relax.op.sqrt(site.emit(relax.op.add(variance, scalar(epsilon, variance))))
    )
    scale = site.emit(relax.op.divide(gamma if scaled else scalar(1, gamma), deviation))
    shift = site.emit(relax.op.multiply(mean, scale))
    shift = site.emit(relax.op.subtract(beta if center else scalar(0, beta), shift))
    return scale, shift


def _gains(site: Site) -> tuple[relax.Expr, relax.Expr]:
    """Gamma and beta; ones and zeros where the attributes switch them off."""
    gamma, beta = site.tensor(1), site.tensor(2)
    for gain in (gamma, beta):
        site.bounded(math.prod(shape_of(gain)), "the number of gains")
    if not site.flag("scale", True):
        gamma = constant(np.ones(shape_of(gamma), dtype_name(gamma)))
    if not site.flag("center", True):
        beta = constant(np.zeros(shape_of(beta), dtype_name(beta)))
    return gamma, beta


def _layer_norm(site: Site) -> Result:
    site.expect(3)
    axis = site.axis(site.integer("axis", -1), site.rank())
    return _normalized(site, site.tensor(0), [axis], axis)


def _instance_norm(site: Site) -> Result:
    site.expect(3)
    axis = site.axis(site.integer("axis", 1), site.rank())
    axes = [i for i in range(1, site.rank()) if i != axis]
    if axis == 0:
        raise site.error("axis 0 is the batch")
    return _normalized(site, site.tensor(0), axes, axis)


def _normalized(site: Site, x: relax.Expr, axes: list[int], axis: int) -> relax.Expr:
    """Mean 0 and variance 1 over some axes, then gains along one."""
    rank = len(shape_of(x))
    gamma, beta = (broadcast_along(site, v, axis, rank) for v in _gains(site))
    y = _standardized(site, x, axes, site.number("epsilon", 1e-5))
    return site.emit(relax.op.add(site.emit(relax.op.multiply(y, gamma)), beta))


def _standardized(site: Site, x: relax.Expr, axes: list[int], epsilon: float) -> relax.Expr:
    mean = site.emit(relax.op.mean(x, axis=axes, keepdims=True))
    rest = site.emit(relax.op.subtract(x, mean))
    square = site.emit(relax.op.multiply(rest, rest))
    variance = site.emit(relax.op.mean(square, axis=axes, keepdims=True))
    raised = site.emit(relax.op.add(variance, scalar(epsilon, x)))
    return site.emit(relax.op.divide(rest, site.emit(relax.op.sqrt(raised))))


def _group_norm(site: Site) -> Result:
    site.expect(3)
    shape, groups = site.shape(), site.integer("num_groups")
    axis = site.axis(site.integer("axis", 1), len(shape))
    if groups < 1 or axis == 0 or shape[axis] % groups:
        raise site.error(f"num_groups={groups} of {shape[axis]} channels at axis {axis}")
    split = [*shape[:axis], groups, shape[axis] // groups, *shape[axis + 1 :]]
    axes = [i for i in range(1, len(split)) if i != axis]
    x = reshape(site, site.tensor(0), split)
    y = reshape(site, _standardized(site, x, axes, site.number("epsilon", 1e-5)), shape)
    gamma, beta = (broadcast_along(site, v, axis, len(shape)) for v in _gains(site))
    return site.emit(relax.op.add(site.emit(relax.op.multiply(y, gamma)), beta))


def _l2_normalize(site: Site) -> Result:
    x, epsilon = site.tensor(0), site.number("eps")
    axes = site.ints("axis", None)
    axes = [site.axis(a, site.rank()) for a in axes] if axes else list(range(site.rank()))
    square = site.emit(relax.op.multiply(x, x))
    total = site.emit(relax.op.sum(square, axis=axes, keepdims=True))
    total = site.emit(relax.op.maximum(total, scalar(epsilon, x)))
    return site.emit(relax.op.divide(x, site.emit(relax.op.sqrt(total))))


def _lrn(site: Site) -> Result:
    axis, size = site.axis(site.integer("axis", 1), site.rank()), site.integer("size", 5)
    if site.bounded(size, "size", 4096) % 2 == 0:
        raise site.error(f"size={size}, expected an odd number")
    alpha, beta, bias = (
        site.number(n, d) for n, d in (("alpha", 1e-4), ("beta", 0.75), ("bias", 2))
    )
    x = site.tensor(0)
    square = site.emit(relax.op.multiply(x, x))
    total = _window_sum(site, square, axis, size)
    scaled = site.emit(relax.op.multiply(total, scalar(alpha / size, x)))
    root = site.emit(relax.op.power(
        site.emit(relax.op.add(scaled, scalar(bias, x))), scalar(beta, x)
    ))  # fmt: skip
    return site.emit(relax.op.divide(x, root))


def _window_sum(site: Site, x: relax.Expr, axis: int, size: int) -> relax.Expr:
    """The sum over a window along one axis; outside is zero."""
    widths = [0] * (2 * len(shape_of(x)))
    widths[2 * axis] = widths[2 * axis + 1] = size // 2
    padded = site.emit(relax.op.nn.pad(x, widths))
    extent = shape_of(x)[axis]
    total: relax.Expr | None = None
    for start in range(min(size, extent + size)):
        part = site.emit(relax.op.strided_slice(padded, [axis], [start], [start + extent]))
        total = part if total is None else site.emit(relax.op.add(total, part))
    assert total is not None
    return total


def _softmax(log: bool) -> Rule:
    def rule(site: Site) -> Result:
        axis = site.axis(site.integer("axis", -1), site.rank())
        make = relax.op.nn.log_softmax if log else relax.op.nn.softmax
        return site.emit(make(site.tensor(0), axis=axis))

    return rule


RULES: dict[str, Rule] = {
    "nn.batch_norm": _batch_norm,
    "nn.layer_norm": _layer_norm,
    "nn.instance_norm": _instance_norm,
    "nn.group_norm": _group_norm,
    "nn.l2_normalize": _l2_normalize,
    "nn.lrn": _lrn,
    "nn.softmax": _softmax(log=False),
    "nn.fast_softmax": _softmax(log=False),
    "nn.log_softmax": _softmax(log=True),
}
