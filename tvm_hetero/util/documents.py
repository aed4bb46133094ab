"""Documents: JSON and YAML files that are read strictly and written whole or not at all.

Every format of ours (platform, problem, schedule, plan) goes through these few functions, so
that an unknown key, a NaN or a half-written file is met in one place.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import yaml

from tvm_hetero.errors import FormatError
from tvm_hetero.util.files import current_umask
from tvm_hetero.util.leftovers import forget, make_file, remove
from tvm_hetero.util.nearest import nearest
from tvm_hetero.util.plain_file import read_plain_file
from tvm_hetero.util.quote import quote
from tvm_hetero.util.strict_json import parse_json
from tvm_hetero.util.strict_yaml import parse_yaml
from tvm_hetero.util.untrusted_names import printable

# A document larger than this is refused before it is parsed: a problem of 100,000 tasks takes
# about 40 MB, so this leaves room and still keeps a hostile file from filling the memory.
MAX_DOCUMENT_BYTES = 128 * 2**20

# What the parsers raise of text that is none, besides their own errors: PyYAML of a value that its
# tag belies (``!!int ""``, ``!!timestamp "x"``).
_NOT_PARSED = (
    ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError,
)  # fmt: skip


def parse_document(text: str, name: str, *, as_yaml: bool = False) -> dict[str, Any]:
    """Parse JSON (or YAML) text into a mapping.

    Raises
    ------
    FormatError
        If the text does not parse, is beyond a limit (`tvm_hetero.util.strict_json`,
        `tvm_hetero.util.strict_yaml`), holds NaN or infinity, repeats a key, or its top level is
        not a mapping. `name` is quoted in the message.
    """
    try:
        data = parse_yaml(text) if as_yaml else parse_json(text)
    except FormatError as error:
        raise FormatError(f"{name}: {error}") from None
    except (yaml.YAMLError, *_NOT_PARSED) as error:
        kind = "YAML" if as_yaml else "JSON"
        reason = printable(" ".join(str(error).split()), 300)
        raise FormatError(f"{name}: not valid {kind}: {reason}") from None
    if not isinstance(data, dict):
        got = "nothing" if data is None else type(data).__name__
        raise FormatError(f"{name}: expected a mapping at the top, got {got}")
    return data


def read_document(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a file as a mapping: YAML if `is_yaml` says so, else JSON (see `parse_document`).

    Raises
    ------
    FormatError
        If it is no plain file, larger than a document may be, or says something else.
    """
    text = read_text(path, MAX_DOCUMENT_BYTES)
    return parse_document(text, str(path), as_yaml=is_yaml(path))


def read_text(path: str | os.PathLike[str], most: int) -> str:
    """The text of a plain file (see `read_plain_file`).

    Raises
    ------
    FormatError
        If there is none, it is larger than `most` bytes, or no UTF-8.
    """
    try:
        return read_plain_file(path, most).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise FormatError(f"{printable(path, 300)}: cannot be read: {reason}") from None


def is_yaml(path: str | os.PathLike[str]) -> bool:
    """Whether a file's name says YAML (``.yaml``, ``.yml``); every other name is JSON."""
    return Path(path).suffix in {".yaml", ".yml"}


def write_atomic(path: str | os.PathLike[str], data: str | bytes) -> None:
    """Write a file whole or not at all: to a temporary name beside it, then rename.

    What is there and is no file (``/dev/stdout``, a pipe) is written to as it is: a rename would
    put a file in its place.

    Raises
    ------
    FormatError
        If the file cannot be written; what stood under `path` before is untouched.
    """
    path = Path(path)
    raw = data.encode("utf-8") if isinstance(data, str) else data
    temporary: Path | None = None
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            with path.open("wb") as file:
                file.write(raw)
            return
        temporary = make_file(f".{path.name}.", "", path.parent)
        temporary.write_bytes(raw)
        # It is private (0600); a document should obey the umask like any other.
        os.chmod(temporary, 0o666 & ~current_umask())
        os.replace(temporary, path)
        forget(temporary)
    except BaseException as error:
        if temporary is not None:
            remove(temporary)
        if isinstance(error, OSError):
            raise FormatError(f"{path}: cannot be written: {error.strerror}") from None
        raise


def canonical_json(data: Any) -> str:
    """Write data as JSON with sorted keys and no spaces: equal data, equal text."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False)


def check_keys(
    data: object, where: str, required: Collection[str], optional: Collection[str] = ()
) -> Mapping[str, Any]:
    """Return `data` as a mapping after checking its keys.

    Raises
    ------
    FormatError
        If `data` is no mapping, lacks a required key, or has an unknown one (the nearest known
        key is suggested).
    """
    if not isinstance(data, Mapping):
        raise FormatError(f"{where}: expected a mapping, got {quote(data)}")
    for key in data:
        if key not in required and key not in optional:
            hint = nearest(key, [*required, *optional])
            raise FormatError(f"{where}: unknown key {quote(key)}{hint}")
    for key in required:
        if key not in data:
            raise FormatError(f"{where}: key {key!r} is missing")
    return data


def check_format(data: object, expected: str, where: str) -> None:
    """Refuse a document whose ``format`` is not `expected`.

    Called before `check_keys` (which requires the key): of a schedule where a problem is expected,
    that is the news, and not its first unknown key.
    """
    if isinstance(data, Mapping) and data.get("format", expected) != expected:
        got = quote(data.get("format"))
        raise FormatError(f'{where}: expected "format": "{expected}", got {got}')
