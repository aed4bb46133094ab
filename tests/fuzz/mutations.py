"""Documents and bytes that are nearly right: one or a few changes by chance."""

from __future__ import annotations

import copy
import json
import random
import struct
from collections.abc import Iterator
from typing import Any

# Values that readers stumble over.
WEIRD: list[Any] = [
    None, True, False, -1, 0, 1, 2, 7, 2**31, 2**53 + 1, 2**62, 2**63, 10**400, 0.5, -0.0, 1e308,
    "", "x", "1", "\x1b[31mred\x07", "\u202eltr", "\ud800", "a" * 5000, "../x", "/dev/zero", "\0",
    1e-320, [], {}, [[]], [1, -1], {"a": {}}, ["x"] * 40, [0] * 2000, [2**40, 2**40],
    float("nan"), float("inf"),
]  # fmt: skip
_PIECES = [b"\0", b"\xff", b"{", b"}", b"[", b"]", b'"', b",", b":", b"\\u0000", b"1e999", b"-",
           b"null", b"[" * 3000, b'{"a":' * 3000, b"9" * 400, b"NaN", b"\xed\xa0\x80"]  # fmt: skip


def mutate_document(data: Any, rng: random.Random) -> Any:
    """A copy of a document with one to three values changed, taken away, doubled or moved."""
    data = copy.deepcopy(data)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        places = list(_places(data))
        if not places:
            return rng.choice(WEIRD)
        _change(*rng.choice(places), places, rng)
    return data


def _change(parent: Any, key: Any, places: list[tuple[Any, Any]], rng: random.Random) -> None:
    what = rng.random()
    if what < 0.6:
        parent[key] = _near(parent[key], rng) if rng.random() < 0.4 else rng.choice(WEIRD)
    elif what < 0.75:
        del parent[key]
    elif what < 0.9:  # that of another place
        other, where = rng.choice(places)
        parent[key] = copy.deepcopy(other[where]) if where in _keys(other) else None
    elif isinstance(parent, dict):
        parent[rng.choice(["x", "\x1b]0;t\x07", "", str(key) + "s"])] = rng.choice(WEIRD)
    else:
        parent.insert(key, copy.deepcopy(parent[key]))


def _near(value: Any, rng: random.Random) -> Any:
    """A value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return rng.choice([value + 1, value - 1, -value, value * 2, value * 1000, value << 32])
    if isinstance(value, float):
        return rng.choice([-value, value * 1e30, value / 1e30])
    if isinstance(value, str):
        return rng.choice([value[:-1], value + value, value.upper(), value[::-1]])
    return value


def _keys(parent: Any) -> range | dict[Any, Any]:
    return parent if isinstance(parent, dict) else range(len(parent))


def _places(data: Any) -> Iterator[tuple[Any, Any]]:
    """Every value of a document, as what it stands in and its key there."""
    if isinstance(data, dict | list):
        for key in list(_keys(data)):
            yield data, key
            yield from _places(data[key])


def mutate_bytes(raw: bytes, rng: random.Random) -> bytes:
    """Bytes flipped, cut out, doubled, put in, or the end missing."""
    made = bytearray(raw)
    for _ in range(rng.choice([1, 1, 2, 4])):
        at, width = rng.randrange(len(made) + 1), rng.choice([1, 1, 4, 30])
        what = rng.randrange(6)
        if what == 0 and at < len(made):
            made[at] ^= 1 << rng.randrange(8)
        elif what == 1:
            del made[at : at + width]
        elif what == 2:
            made[at:at] = made[at : at + width]
        elif what == 3:
            made[at:at] = rng.choice(_PIECES)
        elif what == 4:
            made[at : at + width] = rng.randbytes(width)
        elif rng.random() < 0.5:
            del made[at:]
    return bytes(made)


def mutate_json(text: bytes, rng: random.Random) -> bytes:
    """A JSON file: mostly still JSON, with other values."""
    if rng.random() < 0.25:
        return mutate_bytes(text, rng)
    return json.dumps(mutate_document(json.loads(text), rng)).encode()


def mutate_scalars(text: bytes, rng: random.Random) -> bytes:
    """A JSON file of the same form: one to three numbers or texts are those of other places."""
    document = json.loads(text)
    for _ in range(rng.choice([1, 1, 2, 3])):
        places = [(at, key) for at, key in _places(document) if type(at[key]) in (int, str)]
        parent, key = rng.choice(places)
        alike = [at[k] for at, k in places if type(at[k]) is type(parent[key])]
        parent[key] = rng.choice(alike)
    return json.dumps(document).encode()


def mutate_safetensors(raw: bytes, rng: random.Random) -> bytes:
    """A safetensors file with other values in the header, another length of it, or other bytes."""
    (length,) = struct.unpack("<Q", raw[:8])
    header, data = raw[8 : 8 + length], raw[8 + length :]
    if rng.random() < 0.2:
        length = rng.choice([0, 7, length - 1, length + 8, 2**40, 2**63, 2**64 - 1])
        return struct.pack("<Q", length) + header + data
    if rng.random() < 0.2:
        return mutate_bytes(raw, rng)
    try:
        header = mutate_json(header, rng)
    except (ValueError, RecursionError):
        header = mutate_bytes(header, rng)
    return struct.pack("<Q", len(header)) + header + data
