"""Text in and text out of ``generate``, where the model's folder has a tokenizer.

Decoders themselves know numbers alone. A Hugging Face folder mostly has ``tokenizer.json`` beside
the weights, which the decoder's folder has then, too; the package ``tokenizers`` reads it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvm_hetero.cli.shared.console import complain
from tvm_hetero.decoders.text_files import TOKENIZER, folder_of_texts
from tvm_hetero.errors import UsageError

if TYPE_CHECKING:
    from tvm_hetero.serve.text.tokenizer import TextTokenizer


def tokenizer_of(path: Path, source: Mapping[str, Any]) -> TextTokenizer:
    """The tokenizer of a decoder.

    Parameters
    ----------
    path, source : the decoder's folder, and where its model was (`DecoderFacts.source`).

    Raises
    ------
    UsageError
        If the package `tokenizers`, or the file, is not there.
    ModelError
        If the file is no tokenizer.
    """
    try:
        from tvm_hetero.serve.text.tokenizer import TextTokenizer
    except ImportError:
        raise UsageError(
            "--prompt needs the package tokenizers (pip install 'tvm_hetero[text]'); or give "
            "--prompt-ids"
        ) from None
    file = folder_of_texts(path, source) / TOKENIZER
    if not file.is_file():
        raise UsageError(f"--prompt: there is no {file}; give --prompt-ids")
    return TextTokenizer(file)


def encode_prompts(tokenizer: TextTokenizer, texts: Sequence[str]) -> list[list[int]]:
    """The tokens of each text; what a text and the tokenizer both begin with is warned of."""
    found = []
    for number, text in enumerate(texts):
        found.append(tokenizer.encode(text))
        twice = tokenizer.find_doubled_start(text, found[-1])
        if twice is not None:
            complain(
                "warning",
                f"prompt {number} begins with {twice}, which the tokenizer puts before each text: "
                "the model reads it twice; leave it out",
                "yellow",
            )
    return found
