"""Documents: JSON and YAML files that are read strictly and written whole or not at all.

Every format of ours (platform, problem, schedule, plan) goes through these few functions, so
that an unknown key, a NaN or a half-written file is met in one place.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NoReturn

import yaml

from tvm_hetero.errors import FormatError
from tvm_hetero.util.leftovers import forget, make_file, remove
from tvm_hetero.util.nearest import nearest
from tvm_hetero.util.quote import quote
from tvm_hetero.util.untrusted_names import printable

# A document larger than this is refused before it is parsed: a problem of 100,000 tasks takes
# about 40 MB, so this leaves room and still keeps a hostile file from filling the memory.
MAX_DOCUMENT_BYTES = 512 * 1024 * 1024
# By how many nodes the aliases of a YAML file may enlarge it: ten of them, one in the other, make
# 10^10 of some hundred bytes.
MAX_ALIASED_NODES = 100_000

# What the parsers raise of text that is none, besides their own errors: PyYAML of a value that its
# tag belies (``!!int ""``, ``!!timestamp "x"``).
_NOT_PARSED = (
    ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError,
)  # fmt: skip


def _refuse_constant(text: str) -> NoReturn:
    raise FormatError(f"expected plain finite numbers, got {text}")


def _object_without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build a JSON object; a key that is given twice would silently lose one value."""
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise FormatError(f"key {quote(key)} is given twice in one object")
        result[key] = value
    return result


class _StrictLoader(yaml.SafeLoader):
    """YAML as `yaml.safe_load` reads it, but for keys that are given twice and alias bombs."""

    def get_single_node(self) -> yaml.Node | None:
        """Count what aliases stand for before anything is made of it."""
        node: yaml.Node | None = super().get_single_node()
        if node is not None:
            sizes: dict[int, int] = {}
            if _expanded_size(node, sizes) - len(sizes) > MAX_ALIASED_NODES:
                raise FormatError(
                    f"its aliases (*name) stand for more than {MAX_ALIASED_NODES} values; "
                    "write them out"
                )
        return node

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        """Look at the keys as they are written, before merges (``<<``) add those of others."""
        node: yaml.MappingNode = super().compose_mapping_node(anchor)
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if (key.tag, key.value) in seen:
                    raise FormatError(f"key {quote(key.value)} is given twice in one mapping")
                seen.add((key.tag, key.value))
        return node


def _expanded_size(node: yaml.Node, sizes: dict[int, int]) -> int:
    """How many nodes a node is with every alias written out; `sizes` are those known, by id."""
    if id(node) in sizes:
        if sizes[id(node)] == 0:
            raise FormatError("an alias (*name) stands for what it is in; write it out")
        return sizes[id(node)]
    sizes[id(node)] = 0
    children: list[yaml.Node] = []
    if isinstance(node, yaml.SequenceNode):
        children = node.value
    elif isinstance(node, yaml.MappingNode):
        children = [each for pair in node.value for each in pair]
    sizes[id(node)] = 1 + sum(_expanded_size(child, sizes) for child in children)
    return sizes[id(node)]


def parse_document(text: str, name: str, *, as_yaml: bool = False) -> dict[str, Any]:
    """Parse JSON (or YAML) text into a mapping.

    Raises
    ------
    FormatError
        If the text does not parse, holds NaN or infinity (JSON), repeats a key, or its top
        level is not a mapping. `name` is quoted in the message.
    """
    try:
        if as_yaml:
            data = yaml.load(text, Loader=_StrictLoader)  # a SafeLoader
        else:
            data = json.loads(
                text,
                parse_constant=_refuse_constant,
                object_pairs_hook=_object_without_repeats,
            )
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

    No more is read than a document may have: what is no file may have no end.
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            large = os.fstat(file.fileno()).st_size > MAX_DOCUMENT_BYTES
            raw = b"" if large else file.read(MAX_DOCUMENT_BYTES + 1)
        if large or len(raw) > MAX_DOCUMENT_BYTES:
            raise FormatError(f"{path}: larger than {MAX_DOCUMENT_BYTES} bytes")
        text = raw.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise FormatError(f"{path}: cannot be read: {reason}") from None
    return parse_document(text, str(path), as_yaml=is_yaml(path))


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
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
        forget(temporary)
    except BaseException as error:
        if temporary is not None:
            remove(temporary)
        if isinstance(error, OSError):
            raise FormatError(f"{path}: cannot be written: {error.strerror}") from None
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def canonical_json(data: Any) -> str:
    """Write data as JSON with sorted keys and no spaces: equal data, equal text."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest(data: Any) -> str:
    """SHA-256 (hex) of the canonical JSON of `data`."""
    return hashlib.sha256(canonical_json(data).encode("utf-8")).hexdigest()


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
