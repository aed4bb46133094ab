"""The weights of an encoder's folder, taken by name and shape; what nobody takes is refused.

A folder may hold more than the encoder: the head that it was trained with, or the model that it is
a part of. Its own names have a prefix then, and a family says which others may be there. A weight
that is neither is refused when the graph is whole: a model that we would compute without it is
another one.
"""

from __future__ import annotations

import re
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.huggingface.encoders.families import Family
from tvm_hetero.frontends.huggingface.weights import WeightFiles
from tvm_hetero.util.nearest import nearest
from tvm_hetero.util.untrusted_names import printable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

# What some versions of transformers store: numbers from 0 on.
_IGNORED = re.compile(r".*\.position_ids")
# Files that came from TensorFlow, such as bert-base-uncased, call the two weights of a norm so.
_OLD = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}


class StoredWeights(WeightFiles):
    """Weights of a folder, by their names there."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._taken: set[str] = set()
        self._prefix = ""

    def within(self, family: Family) -> StoredWeights:
        """The same weights, by the names of the plain encoder."""
        found = copy(self)
        starts = (prefix for prefix in family.prefixes if self._has(f"{prefix}{family.layer.at}."))
        found._prefix = next(starts, "")
        return found

    def __contains__(self, name: str) -> bool:
        return self._stored(name) in self._home

    def take(self, name: str, *shape: int) -> Array:
        """A weight as float32.

        Raises
        ------
        ModelError
            It is not there, or of another shape.
        """
        stored = self._stored(name)
        if stored not in self._home:
            raise ModelError(
                f"the weight '{stored}' is missing{nearest(stored, self._home)} (is config.json of "
                "the same model as the weights?)"
            )
        found = self._home[stored].entries[stored].shape
        if found != shape:
            raise ModelError(
                f"the weight '{stored}' is of shape {list(found)}, but by config.json it is of "
                f"{list(shape)}: they are of different models"
            )
        self._taken.add(stored)
        return self._home[stored].read(stored).astype(np.float32)

    def refuse_rest(self, beside: str) -> None:
        """Refuse weights that nobody took, but for those of a pattern.

        Raises
        ------
        ModelError
            If there are any.
        """
        for name in sorted(set(self._home) - self._taken):
            if not _IGNORED.fullmatch(name) and not re.fullmatch(beside, name):
                raise ModelError(
                    f"the weight '{printable(name)}' has no place in the model that config.json "
                    "describes; only the plain models of each family are read"
                )

    def _has(self, start: str) -> bool:
        return any(name.startswith(start) for name in self._home)

    def _stored(self, name: str) -> str:
        """The name in the files."""
        full = self._prefix + name
        for new, old in _OLD.items():
            older = full.removesuffix(new) + old
            if full.endswith(new) and full not in self._home and older in self._home:
                return older
        return full
