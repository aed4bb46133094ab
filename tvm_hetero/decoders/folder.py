"""A decoder as a folder: two ordinary artifacts and what belongs to both.

```
net.hetero/
  decoder.json   what the decoder is: family, rows of its caches, slots, tokens of a chunk, ...
  step/          an artifact: one token for each of `batch` sequences
  prefill/       an artifact: `chunk` tokens of one sequence; not there if `chunk` is 1
  tokenizer.json, ...   for texts, where the model's folder has them (`TEXT_FILES`)
```
Written under a temporary name beside it and renamed when it is whole, like an artifact. This file
loads without TVM, so that `tvm-hetero show` may ask it what a folder is.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tvm_hetero.artifact.kinds import DECODER, check_built, is_artifact, is_decoder
from tvm_hetero.decoders.text_files import copy_text_files
from tvm_hetero.errors import ArtifactError, FormatError, UsageError
from tvm_hetero.util.documents import check_format, read_document, write_atomic
from tvm_hetero.util.fields import Fields
from tvm_hetero.util.files import write_folder

FORMAT = "tvm-hetero/decoder/1"
STEP, PREFILL = "step", "prefill"
_SIZES = ("length", "batch", "groups", "chunk", "vocabulary", "shards")
_LARGEST = 2**31 - 1  # tokens are int32


@dataclass(frozen=True)
class DecoderFacts:
    """What a decoder is.

    Attributes
    ----------
    family : gpt2, llama, mixtral, ...
    length : rows of each cache: tokens of the longest sequence.
    batch, groups : slots of a group, whose sequences are stepped together; groups of slots.
    chunk : tokens of a prefill.
    vocabulary : how many tokens there are.
    eos : tokens that end a text.
    weights : the type that they were brought to.
    cache : the type of keys and values.
    shards : parts of each layer.
    source : where the model came from.
    """

    family: str
    length: int
    batch: int
    groups: int
    chunk: int
    vocabulary: int
    eos: tuple[int, ...] = ()
    weights: str = "float32"
    cache: str = "float32"
    shards: int = 1
    source: Mapping[str, Any] = field(default_factory=dict)


def read_facts(path: str | os.PathLike[str]) -> DecoderFacts:
    """What ``decoder.json`` of a folder says.

    Raises
    ------
    ArtifactError
        If it is not there, malformed, or of another version.
    """
    path = Path(path)
    if not is_decoder(path):
        check_built(path)
        raise ArtifactError(
            f"{path}: expected a decoder (a folder with {DECODER}); make one with 'tvm-hetero "
            "partition FOLDER -o NAME.hetero', FOLDER being a Hugging Face model's"
        )
    where = str(path / DECODER)
    try:
        document = read_document(path / DECODER)
        check_format(document, FORMAT, where)
        return _facts(document, where)
    except FormatError as error:
        raise ArtifactError(f"{error}; build the decoder again") from None


def _facts(document: object, where: str) -> DecoderFacts:
    required = ["format", "family", *_SIZES, "eos", "weights", "source"]
    row = Fields(document, where, required, ["cache"])  # which older decoders do not say
    return DecoderFacts(
        **{key: row.integer(key, least=1, most=_LARGEST) for key in _SIZES},
        family=row.text("family"),
        eos=row.integers("eos", least=0),
        weights=row.text("weights"),
        cache=row.text("cache", "float32"),
        source=row.mapping("source"),
    )


def check_target(path: Path) -> None:
    """Refuse to replace what is no decoder and no artifact of ours.

    Raises
    ------
    UsageError
        If something else is there.
    """
    if path.exists() and not is_decoder(path) and not is_artifact(path):
        raise UsageError(f"{path} is there and is no decoder; give another name or remove it")


def save_decoder(
    path: str | os.PathLike[str],
    facts: DecoderFacts,
    parts: Mapping[str, Callable[[Path], None]],
    model: Path | None = None,
) -> None:
    """Write a decoder's folder, whole or not at all; an older one is replaced.

    Parameters
    ----------
    parts : for each artifact's name (`STEP`, `PREFILL`) what writes it to a path.
    model : the model's folder, of which the files for texts are copied.

    Raises
    ------
    UsageError
        If `path` is there and nothing of ours.
    ArtifactError
        If the folder cannot be written.
    """
    path = Path(os.path.realpath(path))
    check_target(path)

    def fill(folder: Path) -> None:
        for name, save in parts.items():
            save(folder / name)
        if model is not None:
            copy_text_files(model, folder)
        document = {"format": FORMAT, **asdict(facts)}
        write_atomic(folder / DECODER, json.dumps(document, indent=1) + "\n")

    try:
        write_folder(path, fill)
    except (OSError, FormatError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ArtifactError(f"{path}: the decoder cannot be written: {reason}") from None
