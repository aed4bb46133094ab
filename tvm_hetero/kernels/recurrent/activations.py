"""The activations of recurrent cells: ONNX's names, parameters and formulas.

    Sigmoid, Tanh, Relu, Softsign, Softplus     without parameters
    LeakyRelu, ThresholdedRelu, Elu             alpha
    HardSigmoid, Affine, ScaledTanh             alpha, beta

Values of ``activation_alpha`` and ``activation_beta`` go in turn to those functions that take one,
as ONNX Runtime gives them. A function without a value has the default of ONNX's operator of that
name. Affine and ScaledTanh have none, and that of ThresholdedRelu is not taken: it is 1 in ONNX and
0 in ONNX Runtime's recurrent cells.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tvm import tirx

from tvm_hetero.errors import ModelError

if TYPE_CHECKING:
    Expr = Any


@dataclass(frozen=True)
class CellActivation:
    """One function, and its parameters where it has some."""

    name: str
    alpha: float = 0.0
    beta: float = 0.0


def activations_of(
    names: Sequence[str], alphas: Sequence[float] = (), betas: Sequence[float] = ()
) -> tuple[CellActivation, ...]:
    """The functions that a node's attributes name.

    Parameters
    ----------
    names
        As ONNX writes them, in any case.
    alphas, betas
        Values for those of them that take one, in turn.

    Raises
    ------
    ModelError
        There is no such function, a value is missing, or there are more than functions.
    """
    found = [_FORMULAS_BY_NAME.get(name.lower()) for name in names]
    if None in found:
        known = ", ".join(sorted(_FORMULAS))
        raise ModelError(f"activation {names[found.index(None)]!r}: expected one of {known}")
    known_names = [str(name) for name in found]
    alpha = _dealt("activation_alpha", known_names, _ALPHA, alphas)
    beta = _dealt("activation_beta", known_names, _BETA, betas)
    return tuple(CellActivation(*each) for each in zip(known_names, alpha, beta, strict=True))


def _dealt(
    what: str, names: Sequence[str], defaults: dict[str, float | None], values: Sequence[float]
) -> list[float]:
    """A value for each function: the next one, its default, or 0 where it takes none."""
    takers = [name for name in names if name in defaults]
    if takers and len(values) > len(takers):
        raise ModelError(
            f"{what} has {len(values)} values for the {len(takers)} of {', '.join(names)} that "
            "take one: expected at most one for each of these"
        )
    rest = iter(values)
    return [_value(what, name, next(rest, defaults[name])) if name in defaults else 0.0
            for name in names]  # fmt: skip


def _value(what: str, name: str, value: float | None) -> float:
    if value is None:
        raise ModelError(f"{name} without a value in {what}: expected one, it has no default")
    return float(value)


def activate(a: CellActivation, x: Expr) -> Expr:
    """The function of a value, of which it makes several copies: a load, or a constant."""
    dtype = str(x.ty.dtype)

    def number(value: float) -> Expr:
        return tirx.const(value, dtype)

    return _FORMULAS[a.name](x, number(a.alpha), number(a.beta), number)


def _sigmoid(x: Expr, _alpha: Expr, _beta: Expr, _number: Any) -> Expr:
    return tirx.sigmoid(x)


def _tanh(x: Expr, _alpha: Expr, _beta: Expr, _number: Any) -> Expr:
    return tirx.tanh(x)


def _relu(x: Expr, _alpha: Expr, _beta: Expr, number: Any) -> Expr:
    return tirx.Select(x < number(0), number(0), x)


def _affine(x: Expr, alpha: Expr, beta: Expr, _number: Any) -> Expr:
    return alpha * x + beta


def _leaky_relu(x: Expr, alpha: Expr, _beta: Expr, number: Any) -> Expr:
    return tirx.Select(x < number(0), alpha * x, x)


def _thresholded_relu(x: Expr, alpha: Expr, _beta: Expr, number: Any) -> Expr:
    return tirx.Select(x < alpha, number(0), x)


def _scaled_tanh(x: Expr, alpha: Expr, beta: Expr, _number: Any) -> Expr:
    return alpha * tirx.tanh(beta * x)


def _hard_sigmoid(x: Expr, alpha: Expr, beta: Expr, number: Any) -> Expr:
    line = alpha * x + beta
    low = tirx.Select(line < number(0), number(0), line)
    return tirx.Select(line > number(1), number(1), low)


def _elu(x: Expr, alpha: Expr, _beta: Expr, number: Any) -> Expr:
    return tirx.Select(x < number(0), alpha * (tirx.exp(x) - number(1)), x)


def _softsign(x: Expr, _alpha: Expr, _beta: Expr, number: Any) -> Expr:
    return x / (number(1) + tirx.abs(x))


def _softplus(x: Expr, _alpha: Expr, _beta: Expr, number: Any) -> Expr:
    """Of a large x exp is infinite, of minus its absolute value never."""
    above = tirx.Select(x < number(0), number(0), x)
    return above + tirx.log(number(1) + tirx.exp(number(0) - tirx.abs(x)))


_FORMULAS: dict[str, Callable[[Expr, Expr, Expr, Any], Expr]] = {
    "Sigmoid": _sigmoid,
    "Tanh": _tanh,
    "Relu": _relu,
    "Affine": _affine,
    "LeakyRelu": _leaky_relu,
    "ThresholdedRelu": _thresholded_relu,
    "ScaledTanh": _scaled_tanh,
    "HardSigmoid": _hard_sigmoid,
    "Elu": _elu,
    "Softsign": _softsign,
    "Softplus": _softplus,
}
_FORMULAS_BY_NAME = {name.lower(): name for name in _FORMULAS}
_ALPHA: dict[str, float | None] = {
    "LeakyRelu": 0.01, "HardSigmoid": 0.2, "Elu": 1.0, "Affine": None, "ScaledTanh": None,
    "ThresholdedRelu": None,
}  # fmt: skip
_BETA: dict[str, float | None] = {"HardSigmoid": 0.5, "Affine": None, "ScaledTanh": None}
