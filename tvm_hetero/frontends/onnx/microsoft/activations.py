"""The activation of a fused operator: an operator by its name, its attributes as a list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tvm_hetero.frontends.onnx.expansion.rewriting import Rewriting
from tvm_hetero.frontends.onnx.microsoft.forms import ADVICE
from tvm_hetero.util.untrusted_names import printable

# Operator -> its attributes, in the order of the list.
_ACTIVATIONS: dict[str, tuple[str, ...]] = {
    "Elu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"),
    "LeakyRelu": ("alpha",),
    "Relu": (),
    "Selu": ("alpha", "gamma"),
    "Sigmoid": (),
    "Softplus": (),
    "Softsign": (),
    "Tanh": (),
    "ThresholdedRelu": ("alpha",),
}

# The parameters of HardSwish where a file names none: ONNX's.
_HARD_SWISH = (1 / 6, 0.5)


def add_activation(
    r: Rewriting, activation: str, parameters: Sequence[float | None], value: str
) -> None:
    """Add a fused operator's activation of `value`, which makes its result.

    Parameters
    ----------
    r : Rewriting
        The operator.
    activation : str
        Name of an operator, or of ONNX Runtime's own HardSwish; '' for none.
    parameters : sequence of float or None
        Its attributes, as :func:`parameter_names` lists them.
    value : str
        What it is applied to.
    """
    if not activation:
        r.alias(value, r.outputs[0])
    elif activation == "Clip":
        low, high = _parameters(r, activation, parameters, 2)
        limits = [r.like(limit, r.inputs[0]) for limit in (low, high)]
        r.add("Clip", [value, *limits], r.outputs)
    elif activation == "HardSwish":
        found = _parameters(r, activation, parameters, 2) if parameters else _HARD_SWISH
        _hard_swish(r, found, value)
    elif activation in _ACTIVATIONS:
        names = _ACTIVATIONS[activation]
        given: dict[str, Any] = dict(
            zip(names, _parameters(r, activation, parameters, len(names)), strict=True)
        )
        r.add(activation, [value], r.outputs, **given)
    else:
        r.refuse(f"has the activation '{printable(activation)}', which is not taken. {ADVICE}")


def parameter_names(activation: str) -> tuple[str, ...]:
    """Return the attributes of an activation, in the order of its parameters."""
    return _ACTIVATIONS.get(activation, ())


def _parameters(
    r: Rewriting, activation: str, parameters: Sequence[float | None], count: int
) -> list[float]:
    found = [float(p) for p in parameters if p is not None]
    if len(found) < count:
        r.refuse(f"has {len(found)} parameters of its activation {activation}, not {count}")
    return found[:count]


def _hard_swish(r: Rewriting, parameters: Sequence[float], value: str) -> None:
    """Multiply by HardSigmoid."""
    alpha, beta = parameters
    bent = r.add("HardSigmoid", [value], alpha=alpha, beta=beta)
    r.add("Mul", [value, bent], r.outputs)


def as_floats(value: object) -> list[float]:
    """Return a list attribute, which may be absent, as numbers."""
    return [] if value is None else [float(each) for each in np.atleast_1d(np.asarray(value))]
