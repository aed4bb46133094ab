"""The JSON of an inference request, as structs: msgspec checks names, types and sizes as it reads.

The numbers themselves (``data``) are left as they came (`serve.oip.numbers` reads them). Of a large
request they are cut out first: a parser that walks over 60 MB, be it only to skip them, holds up
all other clients meanwhile. They can be found without a parser:

    a key          the bytes ``"data"``, not after a backslash, before a colon, are a key in any
                   document that is JSON: both quotes delimit, or one of them would be escaped
    its numbers    have neither quotes nor braces in them, so that the array ends with the last
                   bracket before the next of these

In their place stands a text that no client can know. What is no JSON is found out by who reads both
parts.
"""

from __future__ import annotations

import secrets
from typing import Annotated

import msgspec

from tvm_hetero.serve.core.refusal import RequestError

_LARGE = 64 << 10  # bytes that are parsed at once
_KEY = b'"data"'
_MARK = secrets.token_hex(8).encode()
_BLANK = b" \t\r\n"

Name = Annotated[str, msgspec.Meta(max_length=256)]
Size = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
Parameters = dict[str, str | int | float | bool]


class InputMessage(msgspec.Struct):
    """An input: its type, and its numbers or how many bytes they have."""

    name: Name
    shape: Annotated[list[Size], msgspec.Meta(max_length=16)]
    datatype: Annotated[str, msgspec.Meta(max_length=16)]
    parameters: Parameters = {}
    data: msgspec.Raw = msgspec.Raw()


class OutputMessage(msgspec.Struct):
    """An output that is asked for."""

    name: Name
    parameters: Parameters = {}


class InferMessage(msgspec.Struct):
    """An inference request. Other members are passed over: clients send ``model_name``."""

    inputs: Annotated[list[InputMessage], msgspec.Meta(max_length=4096)]
    outputs: Annotated[list[OutputMessage], msgspec.Meta(max_length=4096)] = []
    id: Annotated[str, msgspec.Meta(max_length=512)] | None = None
    parameters: Parameters = {}


_DECODER = msgspec.json.Decoder(InferMessage)


def read_message(text: bytes | bytearray) -> InferMessage:
    """Read a request's JSON.

    Raises
    ------
    RequestError
        If it is no JSON, or no such request.
    """
    if len(text) < _LARGE:
        return _decode(text)
    rest, arrays = cut_arrays(text)
    message = _decode(rest)
    for each in message.inputs:
        place = bytes(each.data)
        if place[1:].startswith(_MARK):
            each.data = msgspec.Raw(arrays[int(place[1 + len(_MARK) : -1])])
    return message


def cut_arrays(text: bytes | bytearray) -> tuple[bytes, list[memoryview]]:
    """A document with marks in the place of its arrays called ``data``, and where these are."""
    parts: list[bytes | bytearray] = []
    arrays: list[memoryview] = []
    whole = memoryview(text)
    done, at = 0, text.find(_KEY)
    while at >= 0:
        begin = _array_after(text, at)
        end = text.rfind(b"]", begin, _next_mark(text, begin)) + 1 if begin else 0
        if end:
            parts += [text[done:begin], b'"%b%d"' % (_MARK, len(arrays))]
            arrays.append(whole[begin:end])
            done = end
        at = text.find(_KEY, max(end, at + 1))
    return b"".join([*parts, text[done:]]), arrays


def _array_after(text: bytes | bytearray, key: int) -> int:
    """Where the array of a key begins; 0 if this is no key, or has no array."""
    head = text[key + len(_KEY) : key + len(_KEY) + 64].lstrip(_BLANK)
    value = head[1:].lstrip(_BLANK)
    is_key = head[:1] == b":" and text[key - 1 : key] != b"\\"
    return text.find(b"[", key) if is_key and value[:1] == b"[" else 0


def _next_mark(text: bytes | bytearray, begin: int) -> int:
    """Where the next quote or brace is."""
    found = [at for at in (text.find(b'"', begin), text.find(b"}", begin)) if at >= 0]
    return min(found, default=len(text))


def _decode(text: bytes | bytearray) -> InferMessage:
    try:
        message = _DECODER.decode(text)
    except RecursionError:
        raise RequestError("the request's JSON is nested too deep") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RequestError(f"the request: {_explained(text, str(error))}") from None
    if message.id is not None and len(message.id.encode("utf-8", "replace")) > 512:
        raise RequestError("the request's id has more than 512 bytes")
    return message


def _explained(text: bytes | bytearray, error: str) -> str:
    if text[:6] == b"\x93NUMPY":
        return "expected JSON, got a .npy file; send it with 'Content-Type: application/x-npy'"
    if error.startswith("JSON"):
        return f'{error}; expected {{"inputs": [...]}}'
    return f"{error[:1].lower()}{error[1:]}" if text else "expected JSON, got an empty body"
