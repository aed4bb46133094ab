"""Strangers who do what they should not, beside clients whose latency is measured."""

from __future__ import annotations

import asyncio
import contextlib

_PAUSE = 0.1  # seconds between two pieces of abuse
_LORISES = 50


async def abuse(port: int, model: str) -> None:
    """Until it is cancelled: JSON of a million elements, NaN, head bombs, clients that dawdle."""
    numbers = b"0," * 1_000_000 + b"0"
    data = b'{"inputs":[{"name":"x","datatype":"FP32","shape":[1],"data":[%b]}]}'
    path = b"POST /v2/models/%b/infer HTTP/1.1\r\nHost: localhost\r\n" % model.encode()
    pieces = [
        _posted(path, data % numbers),
        _posted(path, data % b"NaN"),
        _posted(path, b"[" * 1_000_000),
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * (4 << 20) + b"\r\n\r\n",
        path + b"Content-Length: 99999999999\r\n\r\n" + bytes(1 << 20),
    ]
    dawdling = [asyncio.ensure_future(_dawdle(port)) for _ in range(_LORISES)]
    try:
        while True:
            for piece in pieces:
                await _send(port, piece)
                await asyncio.sleep(_PAUSE)
    finally:
        for each in dawdling:
            each.cancel()


def _posted(path: bytes, body: bytes) -> bytes:
    return path + b"Content-Length: %d\r\n\r\n" % len(body) + body


async def _send(port: int, data: bytes) -> None:
    with contextlib.suppress(OSError, TimeoutError):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(data)
            async with asyncio.timeout(5.0):
                await reader.read(1 << 16)
        finally:
            writer.close()


async def _dawdle(port: int) -> None:
    while True:
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            for byte in b"GET /v2 HTTP/1.1\r\nX-Slow: " + b"x" * 100:
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(0.5)
        await asyncio.sleep(0.5)
