"""Text in and text out of ``generate``, where the model's folder has a tokenizer.

Decoders themselves know numbers alone. A Hugging Face folder mostly has ``tokenizer.json`` beside
the weights, which the decoder's folder has then, too; the package ``tokenizers`` reads it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tvm_hetero.decoders.text_files import TOKENIZER, folder_of_texts
from tvm_hetero.errors import ModelError, UsageError


class Tokenizer:
    """Turns text into tokens and back."""

    def __init__(self, path: Path) -> None:
        """Read ``tokenizer.json``.

        Raises
        ------
        UsageError
            If the package or the file is not there.
        ModelError
            If the file is no tokenizer.
        """
        try:
            import tokenizers
        except ImportError:
            raise UsageError(
                "--prompt needs the package tokenizers (pip install 'tvm_hetero[text]'); or give "
                "--prompt-ids"
            ) from None
        if not path.is_file():
            raise UsageError(f"--prompt: there is no {path}; give --prompt-ids")
        try:
            self._tokenizer: Any = tokenizers.Tokenizer.from_file(str(path))
        except Exception as error:  # the package raises nothing more particular
            raise ModelError(f"{path}: is no tokenizer: {error}") from None

    def encode(self, text: str) -> list[int]:
        """The tokens of a text."""
        return [int(token) for token in self._tokenizer.encode(text).ids]

    def decode(self, tokens: Iterable[int]) -> str:
        """The text of some tokens."""
        return str(self._tokenizer.decode(list(tokens)))


def tokenizer_of(path: Path, source: Mapping[str, Any]) -> Tokenizer:
    """The tokenizer of a decoder.

    Parameters
    ----------
    path, source : the decoder's folder, and where its model was (`DecoderFacts.source`).

    Raises
    ------
    UsageError
        If there is no tokenizer.
    """
    return Tokenizer(folder_of_texts(path, source) / TOKENIZER)
