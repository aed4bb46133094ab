"""How long a server takes to refuse, however large the body that was announced.

    python -m benchmarks.serve_refusal           writes results/serve_refusal.json
    python -m benchmarks.serve_refusal --small   a second, no file (the tests run it)

A query's deadline is a microsecond away, which its headers say, so that it is refused at the door.
The client sends the body as fast as it is taken, until the first bytes of the answer are there;
timed is from the end of the headers to those. Alone, and beside clients who are served meanwhile.
Goal: 5 ms.
"""

from __future__ import annotations

import argparse
import select
import socket
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.documents import rounded, write_document
from benchmarks.execution.cases import TINY, make_model, two_devices
from benchmarks.execution.contenders import build_plan
from benchmarks.serve_soaking.process import SoakedServer, soaked_server
from tvm_hetero.problem import Objective
from tvm_hetero.serve.load_test.bodies import RequestHead, infer_request
from tvm_hetero.serve.load_test.client import ClientPool
from tvm_hetero.serve.load_test.run import closed_loop, fetch_metadata, in_loop
from tvm_hetero.util.statistics import summarize

RESULTS = Path(__file__).with_name("results") / "serve_refusal.json"
MODEL = "model"
_SIZES = (1 << 10, 1 << 20, 60 << 20)
_CHUNK = bytes(1 << 16)
_CLIENTS = 4

Row = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> list[Row]:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--output", type=Path, help=f"JSON file (default: {RESULTS})")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{MODEL}.hetero"
        plan = build_plan(make_model(TINY), two_devices(), Objective("throughput"), 2.0,
                          small=True, adaptable=True)  # fmt: skip
        plan.executable.save(path)
        with soaked_server([str(path)]) as server:
            rows = _rows(server, 5 if given.small else 200)
    for row in rows:
        print("  ".join(f"{key} {value}" for key, value in rounded(row).items()), flush=True)
    output = given.output or (None if given.small else RESULTS)
    if output is not None:
        write_document(output, "python -m benchmarks.serve_refusal", rows, goal_ms=5.0)
    return rows


def _rows(server: SoakedServer, count: int) -> list[Row]:
    rows = []
    for beside in (0, _CLIENTS):
        with _served(server, beside):
            for size in _SIZES:
                taken = summarize([refuse(server.port, size) for _ in range(count)])
                rows.append({"clients": beside, "body_bytes": size, "count": count,
                             "p50_ms": 1e3 * taken.median, "p99_ms": 1e3 * taken.p99})  # fmt: skip
    return rows


def refuse(port: int, size: int) -> float:
    """Seconds from the headers to the first bytes of a refusal.

    Raises
    ------
    RuntimeError
        If it is answered otherwise.
    """
    head = (
        f"POST /v2/models/{MODEL}/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: {size}\r\n"
        "Content-Type: application/octet-stream\r\ntvm-hetero-timeout-us: 1\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(head.encode())
        begun, left = time.perf_counter(), size
        client.setblocking(False)
        while True:
            readable, writable, _ = select.select([client], [client] if left else [], [], 10.0)
            if readable:
                taken = time.perf_counter() - begun
                answer = client.recv(1024)
                if not answer.startswith(b"HTTP/1.1 503 "):
                    raise RuntimeError(f"expected a refusal, got {answer!r}")
                return taken
            if not writable:
                raise RuntimeError("no answer within 10 s")
            left -= client.send(_CHUNK[:left])


@contextmanager
def _served(server: SoakedServer, clients: int) -> Iterator[None]:
    """While so many clients ask, each again when it is answered."""
    over = threading.Event()

    def ask() -> None:
        async def whole() -> None:
            pool = ClientPool("127.0.0.1", server.port, clients)
            head = RequestHead(f"127.0.0.1:{server.port}", None, {})
            request = infer_request(head, await fetch_metadata(pool, head, MODEL), binary=True)
            while not over.is_set():
                await closed_loop(pool, {MODEL: request}, clients, 0.2)

        in_loop(whole())

    thread = threading.Thread(target=ask)
    if clients:
        thread.start()
    try:
        yield
    finally:
        over.set()
        if clients:
            thread.join()


if __name__ == "__main__":
    main()
