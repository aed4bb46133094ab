"""``tvm-hetero serve`` as a process of its own, and what it holds."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_PATIENCE = 300.0  # no measure of pace: other programs may halt this one meanwhile


@dataclass
class SoakedServer:
    """A server on a port of the loopback interface."""

    process: subprocess.Popen[str]
    port: int

    def fetch(self, path: str, body: bytes | None = None) -> Any:
        """The JSON under a path; with a body it is posted."""
        url = f"http://127.0.0.1:{self.port}{path}"
        with urllib.request.urlopen(url, body, timeout=_PATIENCE) as reply:
            text = reply.read()
        return json.loads(text) if text else None

    def send_raw(self, model: str, body: bytes) -> None:
        """Ask with the bytes of a model's one input; the answer is read, and not looked at."""
        url = f"http://127.0.0.1:{self.port}/v2/models/{model}/infer"
        headers = {
            "Content-Type": "application/octet-stream", "Inference-Header-Content-Length": "0"
        }  # fmt: skip
        asked = urllib.request.Request(url, body, headers)
        with urllib.request.urlopen(asked, timeout=_PATIENCE) as reply:
            reply.read()

    def resident_bytes(self) -> int:
        """Of the process."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1]) << 10
        raise RuntimeError("the server has ended")

    def held(self) -> tuple[int, int]:
        """Threads and open files."""
        folder = Path(f"/proc/{self.process.pid}")
        return len(list((folder / "task").iterdir())), len(list((folder / "fd").iterdir()))

    def answered(self, model: str) -> int:
        """Queries that it says it has answered."""
        rows = self.fetch(f"/v2/models/{model}/stats")["model_stats"]
        return int(rows[0]["inference_stats"]["success"]["count"])


@contextmanager
def soaked_server(arguments: Sequence[str]) -> Iterator[SoakedServer]:
    """Start one; in the end it is drained, and has to end by itself with status 0."""
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "tvm_hetero", "serve", "--port", "0", *arguments],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        line = next((line for line in process.stdout if "http://" in line), "")
        if not line:
            raise RuntimeError(f"the server ended with status {process.wait()}")
        yield SoakedServer(process, int(line.split("http://")[1].split("/")[0].split(":")[1]))
        process.send_signal(signal.SIGTERM)
        status = process.wait(_PATIENCE)
        if status != 0:
            raise RuntimeError(f"the server ended with status {status} after SIGTERM")
    finally:
        process.kill()
        process.wait()
