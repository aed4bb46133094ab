"""``tvm-hetero serve`` as a process of its own, and the plainest of clients."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

from tests.waiting import LIMIT, eventually


class Reply(NamedTuple):
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


class ServerProcess:
    """A server on a free port of the loopback interface.

    Attributes
    ----------
    url : of its root, without the last slash.
    lines : what it has written, when it has ended.
    """

    def __init__(self, arguments: Sequence[str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tvm_hetero", "serve", "--port", "0", *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1", "NO_COLOR": "1"},
        )  # fmt: skip
        assert self.process.stdout is not None
        self.url = ""
        self.lines: list[str] = []
        for line in self.process.stdout:
            self.lines.append(line)
            if "http://" in line:
                self.url = line[line.index("http://") :].split()[0].rstrip("/")
                break
        assert self.url, f"the server did not start: {''.join(self.lines)}"
        assert eventually(lambda: self.get("/v2/health/ready").status == 200), "never ready"

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> Reply:
        """The answer to a GET."""
        return self.send("GET", path, None, headers)

    def post(self, path: str, body: Any = b"", headers: Mapping[str, str] | None = None) -> Reply:
        """The answer to a POST of bytes, or of something as JSON."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.send("POST", path, data, headers)

    def send(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str] | None
    ) -> Reply:
        """The answer to a request, whatever its status."""
        request = urllib.request.Request(
            self.url + path, body, {"Content-Type": "application/json", **(headers or {})},
            method=method,
        )  # fmt: skip
        try:
            with urllib.request.urlopen(request, timeout=LIMIT) as reply:
                return Reply(reply.status, dict(reply.headers), reply.read())
        except urllib.error.HTTPError as error:
            return Reply(error.code, dict(error.headers), error.read())

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send a signal, and wait for the exit status."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        rest, _ = self.process.communicate(timeout=LIMIT)
        self.lines += rest.splitlines(keepends=True)
        return self.process.returncode

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
