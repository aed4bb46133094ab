"""Positions as angles (rotary embeddings), as a table that the kernels of attention read.

Row p of the table is cos and then sin of ``p * f_i`` for the frequencies ``f_i = base^(-2i/size)``.
Models that were stretched to longer texts scale their frequencies:

    linear    all divided by ``factor``
    llama3    those whose wave is longer than ``original / low`` divided by ``factor``, those
              shorter than ``original / high`` kept, those between them mixed

Everything is computed in float32, in the order in which transformers does, so that the angles are
the same to the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.huggingface.values import read_number
from tvm_hetero.util.untrusted_names import printable

if TYPE_CHECKING:
    from numpy.typing import NDArray

_DEFAULT_BASE = 10000.0


@dataclass(frozen=True)
class Stretch:
    """Scaling of the kind ``llama3``."""

    low: float
    high: float
    original: float


@dataclass(frozen=True)
class Rotary:
    """How positions become angles.

    Attributes
    ----------
    size : numbers of a head; all of them are rotated.
    base : of the frequencies (``rope_theta``).
    factor : by which frequencies are divided.
    stretch : which of them are, if not all.
    """

    size: int
    base: float
    factor: float = 1.0
    stretch: Stretch | None = None

    def table(self, length: int) -> NDArray[np.float32]:
        """``[length, size]``: cosines, then sines."""
        angles = np.outer(np.arange(length, dtype=np.float32), self.frequencies())
        return np.concatenate([np.cos(angles), np.sin(angles)], axis=1)

    def frequencies(self) -> NDArray[np.float32]:
        """Angle from one position to the next, of each pair."""
        exponents = np.arange(0, self.size, 2, dtype=np.float32) / np.float32(self.size)
        plain = np.float32(1.0) / np.float32(self.base) ** exponents
        slow = plain / np.float32(self.factor)
        if self.stretch is None:
            return slow
        waves = np.float32(2 * math.pi) / plain
        long, short = (self.stretch.original / f for f in (self.stretch.low, self.stretch.high))
        share = (np.float32(self.stretch.original) / waves - np.float32(self.stretch.low)) / (
            np.float32(self.stretch.high - self.stretch.low)
        )
        mixed = (np.float32(1) - share) * slow + share * plain
        return np.where(waves > long, slow, np.where(waves < short, plain, mixed))


def read_rotary(data: Mapping[str, Any], size: int) -> Rotary:
    """The rotary embedding that a config describes, in the old way or the new.

    Old: ``rope_theta`` and perhaps ``rope_scaling``; new: both in ``rope_parameters``.

    Raises
    ------
    ModelError
        It is of a kind that we do not compute.
    """
    scaling = data.get("rope_parameters") or data.get("rope_scaling") or {}
    if not isinstance(scaling, Mapping):
        raise ModelError(f"rope_scaling is {printable(scaling)}; expected a mapping")
    for part in (data, scaling):
        if part.get("partial_rotary_factor") not in (None, 1, 1.0):
            raise ModelError("partial_rotary_factor is not supported: all of a head is rotated")
    where = scaling if "rope_theta" in scaling else data
    base = read_number(where, "rope_theta", _DEFAULT_BASE)
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    if kind == "default":
        return Rotary(size, base)
    if kind == "linear":
        return Rotary(size, base, read_number(scaling, "factor"))
    if kind == "llama3":
        return Rotary(size, base, read_number(scaling, "factor"), _stretch(scaling))
    raise ModelError(
        f"rope_scaling is of the type '{printable(kind)}', which is not supported; expected "
        "default, linear or llama3"
    )


def _stretch(scaling: Mapping[str, Any]) -> Stretch:
    low, high = read_number(scaling, "low_freq_factor"), read_number(scaling, "high_freq_factor")
    if high <= low:
        raise ModelError(
            f"high_freq_factor is {high}; expected more than low_freq_factor, which is {low}"
        )
    return Stretch(low, high, read_number(scaling, "original_max_position_embeddings"))
