"""Requests that are nearly right, on raw sockets: the server answers or hangs up, and lives on.

    python -m tests.fuzz.serve_sockets --seconds 600 [--first SEED]

Valid requests are changed at random: bytes flipped, cut out, doubled, spliced with tokens on which
parsers stumble, sent in pieces, ended early. It must hold that

- what comes back, if anything does, is HTTP, and no error 500: that would be a bug that was met;
- nothing is logged as an error;
- others are answered meanwhile (one well-formed request between any two that are not);
- in the end no request is left open inside the server.

What breaks a rule is printed with its seed, which makes the same request again.
"""

from __future__ import annotations

import logging
import random
import select
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.fuzz.tally import conclude, harness_parser, seeds
from tests.serve.faults.hosted import Hosted
from tests.serve.faults.raw_socket import RawSocket
from tests.waiting import eventually
from tvm_hetero.serve.core.limits import MEBIBYTE, Limits
from tvm_hetero.serve.core.options import ServeOptions

_LIMITS = Limits(head_seconds=0.3, body_seconds=0.3, idle=2.0, body=MEBIBYTE)
_PATIENCE = 20.0  # seconds for a reply or a hang-up: far more than the limits
_INFER = "/v2/models/dense/infer"
_TOKENS = (
    b"\r\n", b"\n", b"\r", b"\0", b" ", b":", b"\r\n\r\n", b"\r\n ", b"%00", b"%", b"%ff", b"..",
    b"//", b"-1", b"0x10", b"1e9", b"99999999999999999999", b"4294967296", b"chunked", b"gzip",
    b"Transfer-Encoding: chunked\r\n", b"Content-Length: 5\r\n", b"Expect: 100-continue\r\n",
    b"Content-Encoding: gzip\r\n", b"Inference-Header-Content-Length: 0\r\n", b"HTTP/1.0",
    b"HTTP/9.9", b"NaN", b"Infinity", b"null", b"[", b"]", b"{", b"}", b'"', b"\\ud800", b"\xff",
    b"\xf0\x9f\x98\x80", b"[" * 200, b"a" * 5000, b"Connection: close\r\n", b"Host: evil\r\n",
    b"Upgrade: websocket\r\nConnection: Upgrade\r\n", b"TRACE", b"CONNECT", b"PRI * HTTP/2.0",
)  # fmt: skip


class CapturedErrors(logging.Handler):
    """What was logged as an error."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Called by logging."""
        self.lines.append(self.format(record))


def valid_requests() -> list[bytes]:
    """One of each kind that the server knows."""
    data = "[" + ",".join(["0.5"] * 32) + "]"
    tensor = '{"name":"input0","datatype":"FP32","shape":[1,32]'
    text = f'{{"id":"7","inputs":[{tensor},"data":{data}}}]}}'.encode()
    head = f'{{"inputs":[{tensor},"parameters":{{"binary_data_size":128}}}}]}}'.encode()
    binary = (("Inference-Header-Content-Length", str(len(head))),)
    chunks = b"%x\r\n%b\r\n0\r\n\r\n" % (len(text), text)
    return [
        _request("GET", "/v2"),
        _request("GET", "/v2/health/ready"),
        _request("GET", "/v2/models/dense"),
        _request("GET", "/v2/models/stats"),
        _request("POST", "/v2/repository/index", b"{}"),
        _request("POST", _INFER, text),
        _request("POST", _INFER, head + bytes(128), binary),
        _request("POST", _INFER, bytes(128), (("Inference-Header-Content-Length", "0"),)),
        _request("POST", _INFER, chunks, (("Transfer-Encoding", "chunked"),)),
        _request("POST", _INFER, text, (("tvm-hetero-timeout-us", "100000"),)) * 2,
    ]


def _request(method: str, path: str, body: bytes = b"", headers: tuple[Any, ...] = ()) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost"]
    if body and not any(name == "Transfer-Encoding" for name, _ in headers):
        lines.append(f"Content-Length: {len(body)}")
    lines += [f"{name}: {value}" for name, value in headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


def mutate(request: bytes, drawn: random.Random) -> bytes:
    """The request with one to four changes."""
    data = bytearray(request)
    for _ in range(drawn.randint(1, 4)):
        at = drawn.randrange(len(data) + 1)
        end = min(len(data), at + drawn.choice((1, 1, 2, 8, 40)))
        change = drawn.randrange(6)
        if change == 0 and at < len(data):
            data[at] ^= 1 << drawn.randrange(8)
        elif change == 1:
            del data[at:end]
        elif change == 2:
            data[at:at] = data[at:end] * drawn.choice((1, 2, 50))
        elif change == 3:
            data[at:at] = drawn.choice(_TOKENS)
        elif change == 4:
            data[at:end] = drawn.choice(_TOKENS)
        else:
            del data[at:]
    return bytes(data)


def try_request(address: tuple[str, int], seed: int) -> tuple[str, str]:
    """Send what this seed makes; what became of it, and what is wrong with that (or nothing)."""
    drawn = random.Random(seed)
    data = mutate(drawn.choice(valid_requests()), drawn)
    sock = socket.create_connection(address, timeout=_PATIENCE)
    with sock:
        try:
            cuts = sorted(drawn.randrange(len(data) + 1) for _ in range(drawn.choice((0, 0, 1, 3))))
            for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
                sock.sendall(data[begin:end])
            if drawn.random() < 0.1:
                return "hung up", ""
            # Most that wait for more are told soon that there is no more.
            if drawn.random() > 0.02 and not select.select([sock], [], [], 0.03)[0]:
                sock.shutdown(socket.SHUT_WR)
            reply = sock.recv(65536)
        except TimeoutError:
            return "stalled", f"neither answered nor closed within {_PATIENCE:g} s"
        except (ConnectionResetError, BrokenPipeError):
            return "reset", ""
    if not reply:
        return "closed", ""
    status = reply[9:12].decode("latin-1")
    if not reply.startswith(b"HTTP/1.1 ") or not status.isdecimal():
        return "no HTTP", f"answered {reply[:80]!r}"
    return status, f"answered {reply[:400]!r}" if status == "500" else ""


def fuzz(server: Hosted, seeds: Iterator[int], seconds: float) -> tuple[Counter[str], list[str]]:
    """How often what became of requests, and what broke a rule; ends with seeds or time."""
    counts: Counter[str] = Counter()
    faults: list[str] = []
    errors = CapturedErrors()
    loggers = [logging.getLogger(name) for name in ("tornado", "tvm_hetero", "asyncio")]
    for logger in loggers:
        logger.addHandler(errors)
    end = time.monotonic() + seconds
    try:
        for seed in seeds:
            before = len(errors.lines)
            outcome, fault = try_request(server.address, seed)
            counts[outcome] += 1
            with RawSocket(server.address) as other:
                if other.head("GET", "/v2/health/live").reply().status != 200:
                    fault = fault or "others are not answered"
            logged = errors.lines[before:]
            if fault or logged:
                faults.append(f"seed {seed}: {fault} {' '.join(logged)}")
            if time.monotonic() > end:
                break
        if not eventually(lambda: server.ask(lambda: server.server.context.busy) == 0):
            faults.append(f"{server.server.context.busy} requests are still open in the server")
    finally:
        for logger in loggers:
            logger.removeHandler(errors)
    return counts, faults


@contextmanager
def fuzzed_server(folder: Path) -> Iterator[Hosted]:
    """A server of ``dense.hetero`` with short limits."""
    options = ServeOptions(port=0, limits=_LIMITS)
    with Hosted({"dense": folder / "dense.hetero"}, options) as server:
        server.open_gate()
        yield server


def main(arguments: Sequence[str] | None = None) -> int:
    """Fuzz for a while, by default with seeds that no run has had; the exit status."""
    from tests.serve.build_models import build_tensor_models

    args = harness_parser(__doc__, first=None).parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        build_tensor_models(Path(name))
        with fuzzed_server(Path(name)) as server:
            counts, faults = fuzz(server, seeds(args), float("inf"))
    print("\n".join(faults))
    return conclude(__file__, args.first, counts, len(faults))


if __name__ == "__main__":
    sys.exit(main())
