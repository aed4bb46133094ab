"""Bodies that come as gzip."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

from tvm_hetero.serve.core.refusal import TOO_LARGE, RefusedError, RequestError

_UNPACKED = 256 << 10  # bytes that are copied in a fraction of a millisecond


def decompress(body: bytes, limit: int) -> bytearray:
    """A gzip body; no more than the limit is ever there.

    In pieces: all of it at once would be copied while no other thread may run Python.

    Raises
    ------
    RefusedError, RequestError
        If it is larger than that, or no gzip.
    """
    stream, whole = zlib.decompressobj(16 + zlib.MAX_WBITS), bytearray()
    rest = memoryview(body)
    while rest and not stream.eof:
        piece, rest = bytes(rest[:_UNPACKED]), rest[_UNPACKED:]
        for more in _unpacked(stream, piece):
            whole += more
            if len(whole) > limit:
                raise RefusedError(
                    f"the body has more than {limit} bytes when it is decompressed",
                    reason=TOO_LARGE, status=413,
                )  # fmt: skip
    if not stream.eof or stream.unused_data or rest:
        raise RequestError("the body's gzip ends before its end, or after it")
    return whole


def _unpacked(stream: Any, piece: bytes) -> Iterator[bytes]:
    """What a piece of a gzip stream adds, a piece at a time."""
    is_full = True
    while (piece or is_full) and not stream.eof:
        try:
            more: bytes = stream.decompress(piece, _UNPACKED)
        except zlib.error:
            raise RequestError("the body is no gzip") from None
        piece, is_full = stream.unconsumed_tail, len(more) == _UNPACKED
        yield more
