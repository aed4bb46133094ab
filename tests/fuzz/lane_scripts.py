"""What a client of `serve_lane` says: requests that nearly all have a head that comes again.

A *script* is what is sent on one connection, packet by packet; between packets the gate of
``/gated`` is shut or opened, the client waits until the server has done what it can, or the server
is told to end. Requests are the usual ones, or with something odd in them: a line, a key, a length,
a version, a host, a method, a path, a body, how its head is spelled, or any bytes; now and then one
loads or unloads the model that others ask.
"""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from itertools import pairwise
from typing import Any, TypeAlias

from tests.fuzz.serve_sockets import mutate

KEY = "sesame-sesame-sesame"
MODEL = "/v2/models/dense"
_RIGHT = f"Authorization: Bearer {KEY}"
_ROW = {"name": "input0", "datatype": "FP32", "shape": [1, 32]}
_TENSOR = {"inputs": [{**_ROW, "data": [0.5] * 32}]}
_AS_JSON = json.dumps(_TENSOR).encode()
_TOLD = json.dumps({
    "inputs": [{**_ROW, "parameters": {"binary_data_size": 128}}],
    "parameters": {"binary_data_output": True},
}).encode()  # fmt: skip
_BINARY = (f"Inference-Header-Content-Length: {len(_TOLD)}",)
_MANY = ("X-Times: 3",)

_KEYS: tuple[tuple[str, ...], ...] = (
    (), ("Authorization: Bearer sesame-sesame-sesamf",), (_RIGHT.replace("Bearer", "bearer"),),
    (_RIGHT, _RIGHT), (_RIGHT, "Authorization: Bearer x"), ("Authorization: Bearer",),
    (f"authorization:  Bearer {KEY}",), ("Authorization: Bearer \xff",),
)  # fmt: skip
_LINES: tuple[str, ...] = (
    "Connection: close", "Connection: Close", "Connection: keep-alive", "Connection:",
    "Connection: keep-alive, close", "Connection: upgrade\r\nUpgrade: h2c", "Upgrade: websocket",
    "Connection: close\r\nConnection: keep-alive", "Expect: 100-continue", "Expect: junk",
    "Transfer-Encoding: chunked", "Transfer-Encoding: identity", "Transfer-Encoding : chunked",
    " folded: x", "Content-Length: 4", "Content-Length: 9", "Host: evil.example", "Host: localhost",
    "Origin: http://evil.example", "Origin: http://localhost", "Sec-Fetch-Site: cross-site",
    "X-Forwarded-For: 1.2.3.4", "tvm-hetero-priority: 1", "tvm-hetero-priority: x",
    "tvm-hetero-timeout-us: 1", "tvm-hetero-timeout-us: 1000000000", "tvm-hetero-timeout-us: x",
    "Content-Type: text/html", "Content-Type: application/json; charset=utf-8",
    "Accept: application/x-npy", "Content-Encoding: gzip", "Content-Encoding: br",
    "Inference-Header-Content-Length: 3", "Inference-Header-Content-Length: 0", "X-A: \x00",
    "Keep-Alive: timeout=5, max=1", "X-A: a\rb", "X-A: a\nb", "no colon", "Cookie: a=b; c=d",
    "TE: trailers", "Trailer: X", "X-Long: " + "x" * 3000, "X-Longer: " + "x" * 20_000,
    "Content-Length: 4\r\nContent-Length: 4", "Content-Encoding: identity", "X-A", ": x", "X A: b",
    "tvm-hetero-timeout-us: 1\r\ntvm-hetero-timeout-us: 1000000000", "Connection: keep-alive, TE",
    "Content-Type: application/json\r\nContent-Type: text/html", "Connection: \tkeep-alive\t",
    "Traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "Via: 1.0 a, 1.1 b",
    *("\r\n".join(f"X-{n}: y" for n in range(count)) for count in (20, 100, 400, 2000)),
)  # fmt: skip
_LENGTHS = (
    "0" * 5000 + "4", "0" * 1500 + "4", "9" * 5000, "1_0", "+4", " 4", "4 ", "04", "-1", "0x4",
    "4.0", "", "4,4", "4, 5", "3", "5", "0", "\u0664",
)  # fmt: skip
_VERSIONS = ("HTTP/1.0", "HTTP/1.2", "HTTP/2.0", "http/1.1", "HTTP/0.9")
_HOSTS = (
    "localhost:1", "LOCALHOST", "127.0.0.1", "evil.example", "[::1]", "", "a@localhost",
    "localhost/x", "localhost, evil",
)  # fmt: skip
_METHODS = ("GET", "PUT", "HEAD", "post", "OPTIONS", "DELETE", "PATCH", "_complete", "TRACE")
_PATHS = (
    "/v2", "/gated?output=x", "/gated?a=%ff", "http://localhost/gated", "/gated#x", "/gated/",
    "/v2/models/none/infer", f"{MODEL}/versions/1/infer", f"{MODEL}/versions/9/infer",
    "/v2/models/d%65nse/infer", "/v2/models/%ff/infer", "/v2/models/a%2fb/infer",
)  # fmt: skip
_PARAMETERS: tuple[dict[str, object], ...] = (
    {"timeout": 1}, {"timeout": 10**9}, {"timeout": "x"}, {"priority": 1}, {"priority": -1},
    {"shared_memory_region": "x"},
)  # fmt: skip
_BODIES = (
    b"", b"\xff" * 4, b"[" * 4, gzip.compress(_AS_JSON, mtime=0),
    *(json.dumps({"parameters": each, **_TENSOR}).encode() for each in _PARAMETERS),
)  # fmt: skip
# What is written how in a head, of which most parsers think that it is the same, or nearly.
_SPELLINGS = (
    ("\r\n", "\n"), ("\r\n\r\n", "\r\n\n"), ("\r\n\r\n", "\n\r\n"), ("\r\n", " \r\n"),
    (": ", ":"), (": ", ":\t"), (": ", ":   "), (": ", " : "), ("Content-Length", "content-length"),
    ("Content-Length", "CONTENT-LENGTH"), ("Content-Length", "Content_Length"), ("Host", "hOST"),
    ("Authorization", "AUTHORIZATION"), ("POST ", "\r\nPOST "), ("POST ", "POST  "),
    (" HTTP", "\tHTTP"), ("Host", "X: y\r\n z\r\nHost"), ("\r\n", "\r\r\n"),
)  # fmt: skip
# Part of a request -> odd ones.
_ODD: dict[str, tuple[Any, ...]] = {
    "key": _KEYS, "length": _LENGTHS, "version": _VERSIONS, "host": _HOSTS, "method": _METHODS,
    "path": _PATHS, "body": _BODIES, "spelling": _SPELLINGS,
}  # fmt: skip
_NO_REQUESTS = (b"\r\n", b"\r\n\r\n", b"\n", b"GARBAGE\r\n\r\n", b"xx", b"\0")


@dataclass(frozen=True)
class LaneRequest:
    """A request, well-formed as long as nothing odd is put into it."""

    path: str = "/gated"
    body: bytes = b"body"
    lines: tuple[str, ...] = ()
    key: tuple[str, ...] = (_RIGHT,)
    length: str | None = None
    version: str = "HTTP/1.1"
    host: str = "localhost"
    method: str = "POST"
    spelling: tuple[str, str] = ("", "")

    @property
    def data(self) -> bytes:
        """As it is sent; a body in chunks if a line says so."""
        head = [f"{self.method} {self.path} {self.version}", f"Host: {self.host}"]
        chunked = "Transfer-Encoding: chunked" in self.lines
        if not chunked or self.length is not None:
            own = str(len(self.body)) if self.length is None else self.length
            head.append(f"Content-Length: {own}")
        text = "\r\n".join([*head, *self.key, *self.lines, "", ""])
        if self.spelling[0]:
            text = text.replace(*self.spelling)
        body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(self.body), self.body) if chunked else self.body
        return text.encode("latin-1" if text.isascii() or "\xff" in text else "utf-8") + body


_USUAL = (
    LaneRequest(),
    LaneRequest(),
    LaneRequest(f"{MODEL}/infer", _AS_JSON),
    LaneRequest(f"{MODEL}/infer", _AS_JSON),
    LaneRequest(f"{MODEL}/infer", _TOLD + bytes(128), _BINARY),
    LaneRequest("/repeated", b"abc", _MANY),
    LaneRequest("/repeated", b"x" * 30_000, _MANY),
)
_LESS_USUAL = (
    LaneRequest(f"{MODEL}/infer", _AS_JSON + b" " * 20_000),
    LaneRequest(f"{MODEL}/infer", bytes(128), ("Inference-Header-Content-Length: 0",)),
    LaneRequest("/v2/repository/models/dense/unload", b"{}"),
    LaneRequest("/v2/repository/models/dense/load", b"{}"),
    LaneRequest("/v2/repository/models/dense/load", b"{}"),
)


class Mark(Enum):
    """What is done between two packets."""

    SHUT = "the gate is shut"
    OPEN = "the gate is opened"
    SETTLE = "the server does what it can"
    END = "the server is told to end"


class End(Enum):
    """How a connection ends."""

    DAWDLE = "nothing more comes for a while"
    HALF = "the client closes its side, and reads on"
    HANG_UP = "the client is gone, whatever is under way"


Step: TypeAlias = bytes | Mark


@dataclass(frozen=True)
class Script:
    """What is done on a connection.

    Attributes
    ----------
    wait : seconds that pass after all of it, for `End.DAWDLE`.
    """

    steps: tuple[Step, ...]
    end: End
    wait: float = 0.0


def draw_script(seed: int) -> Script:
    """The script of a seed."""
    rng = random.Random(seed)
    requests = [_draw_request(rng) for _ in range(rng.randint(1, 6))]
    if rng.random() < 0.5:
        requests = [rng.choice(requests) for _ in requests]
    steps: list[Step] = []
    for packet in _packets(rng, requests):
        steps.append(packet)
        if rng.random() < 0.6:
            steps.append(Mark.SETTLE)
        if rng.random() < 0.25:
            # Whether a request that is on its way comes to a shut gate would be luck.
            steps += rng.choice([[Mark.SETTLE, Mark.SHUT], [Mark.OPEN]])
    if rng.random() < 0.03:
        at = rng.randint(0, len(steps))
        steps[at:at] = [Mark.SETTLE, Mark.END, Mark.SETTLE]
    end = rng.choice([End.DAWDLE, End.DAWDLE, End.HALF, End.HANG_UP])
    # None of these is near to a limit of `serve.core.limits`, however busy the machine is.
    return Script(tuple(steps), end, rng.choice([0.0, 20.0, 50.0, 100.0]))


def _draw_request(rng: random.Random) -> bytes:
    kind = rng.random()
    if kind < 0.05:
        return rng.choice(_NO_REQUESTS)
    request = rng.choice(_LESS_USUAL if rng.random() < 0.15 else _USUAL)
    # A body is not repeated as often as changed bytes say: that may be more than there is room for.
    if kind < 0.15 and request.path != "/repeated":
        return mutate(request.data, rng)
    return _odd(rng, request).data if kind > 0.6 else request.data


def _odd(rng: random.Random, of: LaneRequest) -> LaneRequest:
    """The request with one thing changed, or two."""
    what = rng.choice(["a line", "a line", "a number", "a connection", *_ODD])
    if what in _ODD:
        changes: dict[str, Any] = {what: rng.choice(_ODD[what])}
        return replace(of, **changes)
    if what == "a connection":
        lines = (*of.lines, rng.choice(_LINES[:3]))
        return replace(of, lines=lines, version=rng.choice(_VERSIONS))
    line = f"X-Number: {rng.randrange(10_000)}" if what == "a number" else rng.choice(_LINES)
    return replace(of, lines=(*of.lines, line))


def _packets(rng: random.Random, requests: list[bytes]) -> Iterator[bytes]:
    """The bytes of requests: one by one, at once, or cut anywhere, most often near to borders."""
    way = rng.random()
    if way < 0.3:
        yield from requests
        return
    data = b"".join(requests)
    cuts = [] if way < 0.5 else [_cut(rng, requests, way < 0.8) for _ in range(rng.randint(1, 6))]
    for begin, end in pairwise(sorted([0, *cuts, len(data)])):
        if begin < end:
            yield data[begin:end]


def _cut(rng: random.Random, requests: list[bytes], near: bool) -> int:
    """Where to cut: near to the end of a request or of its head, or anywhere."""
    size = sum(map(len, requests))
    if not near:
        return rng.randint(0, size)
    which = rng.randrange(len(requests))
    before, request = sum(map(len, requests[:which])), requests[which]
    border = before + rng.choice([len(request), request.find(b"\r\n\r\n") + 4])
    return min(max(border + rng.choice([-2, -1, 0, 0, 0, 1, 2]), 0), size)
