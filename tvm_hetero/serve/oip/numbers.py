"""Numbers of a tensor as JSON has them, nested or flat: strictly, and a piece at a time.

A parser that reads a million numbers in one call holds up the event loop (and the interpreter: a
thread would not help) for tens of milliseconds, so that the text is read in pieces, and others get
their turn between two of them.

Brackets say what they say by their order alone: what is left of a text when all but ``[],`` is
taken away has to be the text that the shape prescribes. Then they can be left out, and the numbers
are a flat list, which is cut at any comma. No number may be missing, too large for its type, a
truth value, or of a fraction where integers are expected.

So small texts are read, and such in which something is wrong, to say what. Of a large one that is
right the numbers are put straight to where they belong (`native_numbers`).
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Generator, Iterator
from typing import Any, TypeVar

import msgspec
import numpy as np
import orjson

from tvm_hetero.serve.core.refusal import RequestError
from tvm_hetero.serve.oip.native_numbers import fill_from_json

_PIECE = 96 << 10  # bytes that are read in about half a millisecond
_LARGE = 4 << 10  # bytes that take longer as a list than what C++ is told takes to tell
_WRITTEN = 16 << 10  # numbers that are written in as long
_NO_BRACKETS = bytes(set(range(256)) - set(b"[],"))
_NO_NUMBERS = (b"r", b"f", b"n", b'"', b"{")  # of true, false, null, texts, objects
_DECODERS: dict[str, msgspec.json.Decoder[Any]] = {
    "b": msgspec.json.Decoder(list[bool]),
    "i": msgspec.json.Decoder(list[int]),
    "u": msgspec.json.Decoder(list[int]),
    "f": msgspec.json.Decoder(list[float]),
}

T = TypeVar("T")


async def take_turns(steps: Generator[None, None, T]) -> T:
    """What steps return; other tasks of the loop run between two of them."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
        await asyncio.sleep(0)


def read_numbers(
    text: bytes | bytearray | memoryview, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> Generator[None, None, np.ndarray[Any, Any]]:
    """An array of a JSON text, whose numbers may be nested as the shape says, or flat.

    Raises
    ------
    RequestError
        If it is no such text.
    """
    count = math.prod(shape)
    if 2 * count - 1 > len(text):  # before anything is allocated
        commas = bytes(text).count(b",")
        raise RequestError(f"its data: expected {count} numbers, got {commas + 1} or fewer")
    is_nested = bytes(text[:256]).translate(None, _NO_BRACKETS)[:2] == b"[["
    if len(text) >= _LARGE:
        array = np.empty(shape, dtype)
        if (yield from fill_from_json(text, array, is_nested=is_nested)):
            return array
    return (yield from _read_slowly(bytes(text).strip(), shape, dtype, is_nested=is_nested))


def _read_slowly(
    text: bytes, shape: tuple[int, ...], dtype: np.dtype[Any], *, is_nested: bool
) -> Generator[None, None, np.ndarray[Any, Any]]:
    """By way of lists; says what is wrong."""
    count = math.prod(shape)
    frame = _frame(shape) if is_nested else b"[" + b"," * (count - 1) + b"]"
    array = np.empty(count, dtype)
    at = done = 0
    for piece in _pieces(text):
        if done:
            yield
        brackets, values = _read_piece(piece, dtype)
        if frame[at : at + len(brackets)] != brackets or done + len(values) > count:
            raise _ill_formed(shape)
        array[done : done + len(values)] = _converted(values, dtype)
        at, done = at + len(brackets) + 1, done + len(values)
    if done != count or at != len(frame) + 1:
        raise _ill_formed(shape)
    return array.reshape(shape)


def write_numbers(array: np.ndarray[Any, Any]) -> Generator[None, None, bytes]:
    """An array's numbers as a flat JSON list.

    Raises
    ------
    RequestError
        If one of them is none (NaN, infinite), which JSON has no word for.
    """
    flat = np.ascontiguousarray(array).reshape(-1)
    parts = []
    for begin in range(0, max(1, flat.size), _WRITTEN):
        if begin:
            yield
        piece = flat[begin : begin + _WRITTEN]
        if piece.dtype.kind == "f" and not np.isfinite(piece).all():
            raise RequestError(
                "the output has NaN or infinite numbers, which JSON cannot say; ask for it as "
                'bytes ("parameters": {"binary_data": true})'
            )
        parts.append(orjson.dumps(piece, option=orjson.OPT_SERIALIZE_NUMPY)[1:-1])
    return b"[" + b",".join(parts) + b"]"


def _pieces(text: bytes) -> Iterator[bytes]:
    """A text cut at commas."""
    begin = 0
    while begin < len(text):
        end = text.find(b",", begin + _PIECE)
        end = len(text) if end < 0 else end
        yield text[begin:end]
        begin = end + 1


def _frame(shape: tuple[int, ...]) -> bytes:
    """The brackets and commas of a nested array of this shape."""
    frame = b""
    for size in reversed(shape):
        frame = b"[" + b",".join([frame] * size) + b"]"
    return frame


def _read_piece(piece: bytes, dtype: np.dtype[Any]) -> tuple[bytes, list[Any]]:
    """Brackets and commas of a piece, and its numbers."""
    inner = piece.strip(b"[]")
    if b"[" in inner or b"]" in inner or not inner.strip():
        return piece.translate(None, _NO_BRACKETS), _decoded(piece.translate(None, b"[]"), dtype)
    # Brackets at the ends alone, as of a flat list: to look at each byte twice would take as long
    # as to read them; between as many numbers are as many commas, or it was no list.
    values = _decoded(inner, dtype)
    begin = piece[: len(piece) - len(piece.lstrip(b"[]"))]
    end = piece[len(begin) + len(inner) :]
    return begin + b"," * (len(values) - 1) + end, values


def _decoded(inner: bytes, dtype: np.dtype[Any]) -> list[Any]:
    numbers = b"[" + inner + b"]"
    try:
        # orjson takes two thirds of msgspec's time for numbers, but would let in what is none.
        if dtype.kind == "f" and not any(mark in numbers for mark in _NO_NUMBERS):
            read: list[Any] = orjson.loads(numbers)
            return read
        values: list[Any] = _DECODERS[dtype.kind].decode(numbers)
    except (msgspec.DecodeError, orjson.JSONDecodeError) as error:
        raise RequestError(f"its data: {str(error).partition(' - at')[0]}") from None
    return values


def _converted(values: list[Any], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    try:
        with np.errstate(over="ignore"):
            array = np.array(values, dtype)
    except OverflowError:
        raise RequestError(f"its data: a number is out of the range of {dtype.name}") from None
    if dtype.itemsize < 8 and dtype.kind == "f" and not np.isfinite(array).all():
        raise RequestError(f"its data: a number is out of the range of {dtype.name}")
    return array


def _ill_formed(shape: tuple[int, ...]) -> RequestError:
    return RequestError(
        f"its data is not {math.prod(shape)} numbers, flat or nested as its shape "
        f"{list(shape)} says"
    )
