"""Inputs of an encoder: their shapes, from the config or as the user says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tvm_hetero.errors import UsageError
from tvm_hetero.util.untrusted_names import printable

_MOST = 1 << 24


@dataclass(frozen=True)
class EncoderInput:
    """An input: its shape, its type, and of whole numbers the least and the largest."""

    shape: tuple[int, ...]
    dtype: str
    range: tuple[int, int] | None = None


def agreed_shape(
    names: Sequence[str],
    given: Mapping[str, tuple[int, ...]],
    usual: tuple[int, ...] | None,
    most: Sequence[int | None],
    least: Sequence[int | None] = (),
) -> tuple[int, ...]:
    """The shape that inputs have in common.

    Parameters
    ----------
    names
        Of the inputs that are of one shape.
    given
        What the user says, of some of them.
    usual
        The shape where nothing is said; None: something must be.
    most
        For each dimension the largest extent; None: any.
    least
        For each dimension the smallest extent; None, or no entry: 1.

    Raises
    ------
    UsageError
        What is given is of another rank, out of its range, or not the same for all.
    """
    found = {given[name] for name in names if name in given}
    if not found:
        if usual is None:
            form = "x".join("N" for _ in most)
            raise UsageError(
                f"the shape of {names[0]} is not in the config; say it: --shape {names[0]}={form}"
            )
        return usual
    if len(found) > 1:
        raise UsageError(
            f"shapes {', '.join(map(_text, sorted(found)))}: {', '.join(names)} are of one shape"
        )
    shape = found.pop()
    lows = [low or 1 for low in least] + [1] * (len(most) - len(least))
    highs = [high or _MOST for high in most]
    inside = len(shape) == len(most) and all(
        low <= extent <= high for extent, low, high in zip(shape, lows, highs, strict=False)
    )
    if not inside:
        raise UsageError(f"shape {_text(shape)} of {names[0]}: expected {_ranges(lows, highs)}")
    return shape


def refuse_others(names: Sequence[str], given: Mapping[str, object]) -> None:
    """Refuse shapes of inputs that are none.

    Raises
    ------
    UsageError
        If there is one.
    """
    for name in given:
        if name not in names:
            raise UsageError(
                f"shape of '{printable(name)}': the model's inputs are {', '.join(names)}"
            )


def _text(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or "scalar"


def _ranges(lows: Sequence[int], highs: Sequence[int]) -> str:
    """Such as ``1..16777216 x 1..512``."""
    pairs = zip(lows, highs, strict=True)
    return " x ".join(str(low) if low == high else f"{low}..{high}" for low, high in pairs)
