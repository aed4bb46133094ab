"""What a decoder's folder has for texts: the tokenizer, its settings, the template of chats.

They are copied from the model's folder when the decoder is built, so that the decoder is whole. An
older one, which has none of them, is read beside the model that it was made of.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

TOKENIZER = "tokenizer.json"
TOKENIZER_CONFIG = "tokenizer_config.json"
CHAT_TEMPLATE = "chat_template.jinja"
GENERATION_CONFIG = "generation_config.json"
TEXT_FILES = (TOKENIZER, TOKENIZER_CONFIG, CHAT_TEMPLATE, GENERATION_CONFIG)


def copy_text_files(source: Path, target: Path) -> None:
    """Copy those that a model's folder has.

    Raises
    ------
    OSError
        If one cannot be read, or not be written.
    """
    for name in TEXT_FILES:
        if (source / name).is_file():
            shutil.copyfile(source / name, target / name)


def folder_of_texts(path: Path, source: Mapping[str, Any]) -> Path:
    """The folder to look into: the decoder's own, or for older ones that of its model.

    Parameters
    ----------
    path, source : of the decoder (`DecoderFacts.source`).
    """
    origin = source.get("path")
    if any((path / name).is_file() for name in TEXT_FILES) or not isinstance(origin, str):
        return path
    return Path(origin)
