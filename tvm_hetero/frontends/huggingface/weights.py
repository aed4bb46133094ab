"""The weights of a folder: one safetensors file, or several with an index; checked by shape.

What a family expects is known from its config before a weight is read. Every weight must be there
in its shape, and nothing else may be: a model with weights that we would not use is another model.
Buffers that some versions of transformers store beside the weights are let pass (`IGNORED`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from tvm_hetero.errors import FormatError, ModelError
from tvm_hetero.frontends.huggingface.files import has_file, read_text
from tvm_hetero.frontends.huggingface.safetensors_file import TensorEntry, TensorFile
from tvm_hetero.util.documents import parse_document
from tvm_hetero.util.nearest import nearest
from tvm_hetero.util.untrusted_names import printable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Shape = tuple[int, ...]

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
_PICKLED = ("pytorch_model.bin", "pytorch_model.bin.index.json")
_MOST_INDEX = 256 * 1024 * 1024
_MOST_FILES = 10_000

# Causal masks of GPT-2 and frequencies of rotary embeddings: constants that follow from the config.
IGNORED = re.compile(r".*\.(attn\.(masked_)?bias|rotary_emb\.inv_freq)")
# Checkpoints that were saved without their head lack this in front of each name.
_PREFIXES = ("transformer.", "model.")


class WeightFiles:
    """The safetensors of a folder, open; use it in a ``with``.

    Raises
    ------
    ModelError
        There are no safetensors, or they are malformed.
    """

    def __init__(self, folder: Path) -> None:
        self._files: list[TensorFile] = []
        try:
            self._home = _open_files(folder, self._files)
        except ModelError:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all files."""
        for file in self._files:
            file.close()


class Weights(WeightFiles):
    """Weights of a folder, by the names of the family."""

    def __init__(
        self, folder: Path, expected: Mapping[str, Shape], tied: tuple[str, str] | None
    ) -> None:
        """Open the folder's files and check what is in them.

        Parameters
        ----------
        folder
            The model's folder.
        expected
            Name and shape of every weight of the model.
        tied
            Two names, the first of a weight that may be stored though it is the second one.

        Raises
        ------
        ModelError
            There are no safetensors, something else is in them, or those that are tied differ.
        """
        super().__init__(folder)
        self.folder = folder
        try:
            self._names = _checked(self._entries(), expected, tied[0] if tied else None)
            if tied is not None and tied[0] in self._home:
                self._refuse_unlike(*tied)
        except ModelError:
            self.close()
            raise

    def __getitem__(self, name: str) -> NDArray[Any]:
        """A weight, read now, in the type in which it is stored."""
        stored = self._names[name]
        return self._home[stored].read(stored)

    def _refuse_unlike(self, spare: str, used: str) -> None:
        """Refuse a tied weight that is stored and is another one than that which is used.

        transformers from 5 on uses both then, and those before it the second one alone.
        """
        if not np.array_equal(self._home[spare].read(spare), self[used]):
            raise ModelError(
                f"{printable(self.folder, 300)}: '{spare}' is not the same as '{used}', though "
                "tie_word_embeddings of config.json says so (it may be by default). Set that to "
                f"false for a head of its own, or save the model again without '{spare}'"
            )

    def _entries(self) -> dict[str, TensorEntry]:
        return {name: file.entries[name] for name, file in self._home.items()}


def _open_files(folder: Path, files: list[TensorFile]) -> dict[str, TensorFile]:
    """The file of each tensor; files are appended to ``files`` as they are opened."""
    if has_file(folder, SINGLE):
        files.append(TensorFile(folder, SINGLE))
        return dict.fromkeys(files[0].entries, files[0])
    if not has_file(folder, INDEX):
        raise ModelError(_nothing_to_read(folder))
    wanted = _index(folder)
    opened: dict[str, TensorFile] = {}
    for name in sorted(set(wanted.values())):
        opened[name] = TensorFile(folder, name)
        files.append(opened[name])
    for name, file in opened.items():
        listed = {weight for weight, home in wanted.items() if home == name}
        for odd in sorted(listed ^ set(file.entries)):
            there = "has" if odd in file.entries else "lacks"
            raise ModelError(
                f"{printable(folder / name, 300)} {there} '{printable(odd)}', unlike {INDEX} says: "
                "the files are of different models or versions; copy all of them again"
            )
    return {weight: opened[home] for weight, home in wanted.items()}


def _nothing_to_read(folder: Path) -> str:
    where = printable(folder, 300)
    for name in _PICKLED:
        if has_file(folder, name):
            return (
                f"{where} has {name}, which is a pickle: reading it would run whatever code is in "
                "it. Load the model where you trust it and save it again with "
                "model.save_pretrained(folder, safe_serialization=True)"
            )
    return f"{where} has neither {SINGLE} nor {INDEX}; expected the weights there"


def _index(folder: Path) -> dict[str, str]:
    """Which file has which weight, as the index says."""
    where = printable(folder / INDEX, 300)
    try:
        document = parse_document(read_text(folder, INDEX, _MOST_INDEX), where)
    except FormatError as error:
        raise ModelError(str(error)) from None
    homes = document.get("weight_map")
    if not isinstance(homes, dict) or not all(isinstance(v, str) for v in homes.values()):
        raise ModelError(f"{where}: expected 'weight_map', from names of weights to names of files")
    if not homes or len(set(homes.values())) > _MOST_FILES:
        raise ModelError(f"{where}: expected some weights in at most {_MOST_FILES} files")
    return homes


def _checked(
    entries: Mapping[str, TensorEntry], expected: Mapping[str, Shape], tied: str | None
) -> dict[str, str]:
    """The name in the files of each expected weight."""
    names = _stored_names(entries, expected)
    for name, shape in expected.items():
        if name not in names:
            raise ModelError(
                f"the weight '{name}' is missing{nearest(name, entries)} (is config.json of the "
                "same model as the weights?)"
            )
        entry = entries[names[name]]
        if entry.shape != shape:
            raise ModelError(
                f"the weight '{name}' is of shape {list(entry.shape)}, but by config.json it is of "
                f"{list(shape)}: they are of different models"
            )
    used = set(names.values()) | ({tied} if tied else set())
    for name in sorted(set(entries) - used):
        if not IGNORED.fullmatch(name):
            raise ModelError(
                f"the weight '{printable(name)}' has no place in the model that config.json "
                "describes; only the plain models of each family are read"
            )
    return names


def _stored_names(
    entries: Mapping[str, TensorEntry], expected: Mapping[str, Shape]
) -> dict[str, str]:
    names = {name: name for name in expected if name in entries}
    for name in expected:
        for prefix in _PREFIXES:
            short = name.removeprefix(prefix)
            if name not in entries and short != name and short in entries:
                names[name] = short
    return names
