"""Logits that depend on what was generated already: penalties on repeating, and biases.

    logit[t] - frequency * count[t] - presence * (count[t] > 0) + bias[t]

where count[t] is how often token t has been generated; the prompt does not count. These are the
formulas of OpenAI's reference.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tvm_hetero.errors import UsageError
from tvm_hetero.generation.sampling import Logits


@dataclass(frozen=True)
class Penalties:
    """What is taken from logits, and added to them.

    Attributes
    ----------
    frequency, presence : for each time that a token was generated; once if it was.
    bias : what is added to single tokens.
    """

    frequency: float = 0.0
    presence: float = 0.0
    bias: tuple[tuple[int, float], ...] = ()

    def __post_init__(self) -> None:
        for name, value in (("frequency", self.frequency), ("presence", self.presence)):
            if not math.isfinite(value):
                raise UsageError(f"{name} {value!r}: expected a number")
        for token, value in self.bias:
            if not math.isfinite(value):
                raise UsageError(f"the bias of token {token} is {value!r}; expected a number")

    @property
    def depends_on_text(self) -> bool:
        """Whether what was generated matters."""
        return bool(self.frequency or self.presence)


NO_PENALTIES = Penalties()


def penalise(logits: Logits, penalties: Penalties, generated: Sequence[int]) -> Logits:
    """Logits under penalties; as they are where there are none."""
    if penalties is NO_PENALTIES or penalties == NO_PENALTIES:
        return logits
    changed = logits.astype(np.float32)
    if penalties.depends_on_text and generated:
        tokens, counts = np.unique(np.asarray(generated), return_counts=True)
        changed[tokens] -= np.float32(penalties.frequency) * counts.astype(np.float32)
        changed[tokens] -= np.float32(penalties.presence)
    for token, value in penalties.bias:
        changed[token] += np.float32(value)
    return changed
