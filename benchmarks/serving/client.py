"""A client that costs next to nothing: requests are bytes that were made before, on one socket."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.serving.servers import RunningServer, ServedFiles

_PIECE = 1 << 18


class CpuSeconds(NamedTuple):
    """Of a process so far: in threads of Python, and in all others (kernels)."""

    python: float
    kernels: float


def request_of(server: RunningServer, form: str, files: ServedFiles, x: Any) -> bytes:
    """A request for the outputs of an array."""
    tensor = {"name": files.input, "shape": list(x.shape), "datatype": "FP32"}
    extra = ""
    if form == "json":
        body = json.dumps({"inputs": [{**tensor, "data": x.ravel().tolist()}]}).encode()
        extra = "Content-Type: application/json\r\n"
    elif server.name == "ours":
        size = {"parameters": {"binary_data_size": x.nbytes}}
        asked = {"inputs": [{**tensor, **size}], "parameters": {"binary_data_output": True}}
        head = json.dumps(asked).encode()
        body = head + x.tobytes()
        extra = f"Inference-Header-Content-Length: {len(head)}\r\n"
    else:
        body = x.tobytes()
    start = f"POST {server.paths[form]} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n"
    return f"{start}{extra}Content-Length: {len(body)}\r\n\r\n".encode() + body


class Connection:
    """A connection that stays open."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, request: bytes) -> bytes:
        """The body of the answer.

        Raises
        ------
        RuntimeError
            If it is no 200.
        """
        self._socket.sendall(request)
        data = b""
        while b"\r\n\r\n" not in data:
            data += self._socket.recv(_PIECE)
        head, _, body = data.partition(b"\r\n\r\n")
        size = int(head.lower().partition(b"content-length:")[2].split()[0])
        while len(body) < size:
            body += self._socket.recv(_PIECE)
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(f"{head!r}: {body[:500]!r}")
        return body

    def close(self) -> None:
        """Hang up."""
        self._socket.close()


def one_by_one(server: RunningServer, request: bytes, seconds: float) -> tuple[list[float], float]:
    """Seconds of each of requests that are asked one after the other, and of CPU a request."""
    connection = Connection(server.port)
    connection.ask(request)
    before, times = cpu_of(server.pid), []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 3:
        begun = time.perf_counter()
        connection.ask(request)
        times.append(time.perf_counter() - begun)
    connection.close()
    used = cpu_of(server.pid)
    python = used.python - before.python
    own = python if server.name == "ours" else python + used.kernels - before.kernels
    return times, own / len(times)


def together(server: RunningServer, request: bytes, seconds: float, clients: int) -> float:
    """Requests a second of so many clients, each of which asks again when it is answered."""
    counts = [0] * clients
    end = time.perf_counter() + seconds

    def ask(which: int) -> None:
        connection = Connection(server.port)
        while time.perf_counter() < end:
            connection.ask(request)
            counts[which] += 1
        connection.close()

    begun = time.perf_counter()
    threads = [threading.Thread(target=ask, args=(which,)) for which in range(clients)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return sum(counts) / (time.perf_counter() - begun)


def cpu_of(pid: int) -> CpuSeconds:
    """CPU time of a process's threads; the executor gives its own the names of places."""
    python = kernels = 0.0
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            used = int((task / "schedstat").read_text().split()[0]) * 1e-9
            is_python = (task / "comm").read_text().startswith(("python", "tvm-hetero", "mlserver"))
        except OSError:  # it has ended meanwhile
            continue
        python, kernels = (python + used, kernels) if is_python else (python, kernels + used)
    return CpuSeconds(python, kernels)


def input_of(files: ServedFiles) -> Any:
    """A seeded array."""
    return np.random.default_rng(0).standard_normal(files.shape).astype("float32")


def cores() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0))
