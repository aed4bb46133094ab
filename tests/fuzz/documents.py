"""Documents that are nearly right, by the thousand: read or refused, and by both languages alike.

    python -m tests.fuzz.documents --seconds 600

Texts of every format are mutated by the byte, by the token and by the value (as JSON and as YAML),
and read by the readers of `tests.util.test_hostile_documents`. A reader takes a document, or raises
one short printable `HeteroError`; what takes 5 s, or raises anything else, is a fault. What one
JSON reader takes the other must: the C++ one parses each text as a plan, whose first complaint says
whether it was JSON at all, and whether it was a plan.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tvm_ffi
import yaml

from tests.fuzz.tally import conclude, harness_parser, seeds
from tests.util.test_hostile_documents import DOCUMENTS, READERS, _check_message
from tvm_hetero.errors import FormatError, HeteroError
from tvm_hetero.executor.native import load_library
from tvm_hetero.util.documents import parse_document

_LONGEST = 5.0  # seconds
_NO_JSON = "not a JSON document"
_TOKENS = [
    "NaN", "-Infinity", "1e999", "1e-400", "5e-324", "01", "+1", "1.", ".5", "-0", "9" * 400,
    "1" + "0" * 30, "null", "true", "[]", "{}", '""', '"\\ud800"', '"\\ud83d\\ude00"', '"\\u0000"',
    '"\x1b[31m"', '"\x01"', "[" * 70, "]" * 70, '{"a":1,"a":2}', '{"a":1,"\\u0061":2}', ",", ":",
    "\ufeff",
    "\u2028", "&a ", "*a", "!!binary ", "!!set ", "<<: ", "1:30:00", "0x1F", "2020-01-02", ".inf",
    "\t", "'", '"', "\\", "/*", "//", "-", "? ", "| ", "\x00", "1e00001", "9007199254740993",
]  # fmt: skip


def mutate(text: str, rng: random.Random) -> bytes:
    """A text, changed in one to three places."""
    raw = text.encode("utf-8", "surrogatepass")
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(raw) + 1)
        end = min(len(raw), at + rng.choice([0, 0, 1, 1, 2, 5, 40]))
        what = rng.randrange(5)
        if what == 0:
            raw = raw[:at] + bytes([rng.randrange(256)]) + raw[end:]
        elif what == 1:
            raw = raw[:at] + rng.choice(_TOKENS).encode() + raw[end:]
        elif what == 2:
            raw = raw[:at] + raw[end:]
        elif what == 3:
            raw = raw[:at]
        else:
            begin = rng.randrange(len(raw) + 1)
            raw = raw[:at] + raw[begin : begin + rng.randrange(60)] + raw[at:]
    return raw


def change_value(document: Any, rng: random.Random) -> str:
    """JSON of a document of which one value is another token."""
    words = json.dumps(document).split(" ")
    words[rng.randrange(len(words))] = rng.choice(_TOKENS) + rng.choice([",", "", "}", "]"])
    return " ".join(words)


def complaint_of_native(text: bytes) -> str:
    """What the C++ reader says of a text, taken as a plan; "" if it takes it."""
    load_library()
    create = tvm_ffi.get_global_func("tvm_hetero.create_executor")
    try:
        create(text.decode("utf-8", "surrogateescape")).get_function("shutdown")()
    except ValueError as error:
        return str(error) or "refused"
    return ""


def complaint_of_python(text: bytes) -> str:
    """What the Python reader says of a text, taken as JSON; "" if it takes it."""
    try:
        parse_document(text.decode("utf-8"), "x")
    except UnicodeDecodeError:
        return "not UTF-8"
    except FormatError as error:
        return "" if "at the top" in str(error) else str(error)
    return ""


def check_alike(text: bytes) -> None:
    """Refuse a text of which the two languages differ whether it is JSON.

    Raises
    ------
    AssertionError
        If they do.
    """
    try:
        text.decode("utf-8")
    except UnicodeDecodeError:
        return  # it does not come through Python to C++; tests/cpp/test_files.cc has such
    python, native = complaint_of_python(text), complaint_of_native(text)
    assert (_NO_JSON in native) == bool(python), f"{text!r}: Python {python!r}, C++ {native!r}"


def check_read(kind: str, path: Path) -> bool:
    """Whether a file is read; if not, whether it is refused as it should be.

    Raises
    ------
    AssertionError
        If it is not, or after too long a time.
    """
    start = time.process_time()
    try:
        READERS[kind](path)
        return True
    except HeteroError as error:
        _check_message(error, path)
        return False
    finally:
        assert time.process_time() - start < _LONGEST, path.read_bytes()


def check(seed: int, folder: Path) -> bool:
    """One document, made of a seed alone; whether it was read (see the module).

    Raises
    ------
    AssertionError
        If something is wrong, or whatever a reader raises that it must not.
    """
    rng = random.Random(seed)
    kind = rng.choice(sorted(READERS))
    as_yaml = kind in ("platform", "cluster") and rng.random() < 0.5
    if as_yaml:
        text = mutate(yaml.safe_dump(DOCUMENTS[kind]), rng)
    elif rng.random() < 0.5:
        text = change_value(DOCUMENTS[kind], rng).encode()
    else:
        text = mutate(json.dumps(DOCUMENTS[kind]), rng)
    place = folder / kind
    place.mkdir(exist_ok=True)
    path = place / f"{kind}.{'yaml' if as_yaml else 'json'}"
    path.write_bytes(text)
    try:
        if not as_yaml:
            check_alike(text)
        return check_read(kind, path)
    except Exception as error:
        raise AssertionError(f"seed {seed}, {kind}: {text!r}: {error!r}") from error


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw documents until there are enough or the time is over; returns the exit status."""
    given = harness_parser(__doc__, first=None).parse_args(arguments)
    load_library()
    outcomes = Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        for seed in seeds(given):
            try:
                outcomes["read" if check(seed, Path(folder)) else "refused"] += 1
            except AssertionError as fault:
                outcomes["fault"] += 1
                print(fault, flush=True)
    return conclude(__file__, given.first, outcomes, outcomes["fault"])


if __name__ == "__main__":
    sys.exit(main())
