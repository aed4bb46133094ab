"""Servers of one model, each in a process of its own, on the same cores.

The peers are installed into virtual environments below ``build/peers/``, once.
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from benchmarks.conforming.rows import ROOT

PEERS = ROOT / "build" / "peers"
_HERE = Path(__file__).parent
_PACKAGES = {
    "fastapi": ("fastapi", "uvicorn[standard]", "onnxruntime", "numpy"),
    "mlserver": ("mlserver", "onnxruntime", "numpy"),
}
_READY = 120.0
_OURS = ("ours", "tornado")  # started in this tree, by this interpreter


class ServedFiles(NamedTuple):
    """A model in both forms, its one input's name and shape, and bytes of its one output."""

    name: str
    onnx: Path
    artifact: Path
    input: str
    shape: tuple[int, ...]
    answer: int = 64


@dataclass(frozen=True)
class RunningServer:
    """A process that answers.

    Attributes
    ----------
    paths : by form (``json``, ``binary``): where requests in it go.
    """

    name: str
    pid: int
    port: int
    paths: dict[str, str]


@contextmanager
def ours(files: ServedFiles, folder: Path, threads: int) -> Iterator[RunningServer]:
    """``tvm-hetero serve``."""
    port = _free_port()
    command = [
        sys.executable, "-m", "tvm_hetero", "serve", f"{files.name}={files.artifact}",
        "--port", str(port),
    ]  # fmt: skip
    path = f"/v2/models/{files.name}/infer"
    with _running("ours", command, port, {"json": path, "binary": path}, folder) as server:
        yield server


@contextmanager
def fastapi(files: ServedFiles, folder: Path, threads: int) -> Iterator[RunningServer]:
    """ONNX Runtime behind FastAPI and uvicorn."""
    port = _free_port()
    script = str(_HERE / "fastapi_server.py")
    command = [str(_python("fastapi")), script, str(files.onnx), str(port), str(threads)]
    paths = {"json": "/json", "binary": "/binary"}
    with _running("FastAPI", command, port, paths, folder) as server:
        yield server


@contextmanager
def mlserver(files: ServedFiles, folder: Path, threads: int) -> Iterator[RunningServer]:
    """ONNX Runtime in MLServer, in its own process, as it is quickest."""
    port = _free_port()
    home = folder / f"mlserver-{files.name}"
    home.mkdir()
    shutil.copy(_HERE / "mlserver_runtime.py", home)
    settings = {
        "http_port": port, "grpc_port": _free_port(), "metrics_port": _free_port(),
        "host": "127.0.0.1", "parallel_workers": 0, "debug": False, "metrics_endpoint": None,
    }  # fmt: skip
    (home / "settings.json").write_text(json.dumps(settings))
    model = {
        "name": files.name, "implementation": "mlserver_runtime.OnnxRuntime",
        "parameters": {"uri": str(files.onnx), "extra": {"threads": threads}},
    }  # fmt: skip
    (home / "model-settings.json").write_text(json.dumps(model))
    command = [str(_python("mlserver").parent / "mlserver"), "start", str(home)]
    paths = {"json": f"/v2/models/{files.name}/infer"}
    with _running("MLServer", command, port, paths, home) as server:
        yield server


@contextmanager
def tornado(files: ServedFiles, folder: Path, threads: int) -> Iterator[RunningServer]:
    """No model: a handler of tornado's, on which ours stands, that has its answer."""
    port = _free_port()
    command = [sys.executable, "-m", "benchmarks.serving.tornado_server", str(port)]
    paths = {"json": "/json", "binary": "/binary"}
    with _running("tornado", [*command, str(files.answer)], port, paths, folder) as server:
        yield server


SERVERS: dict[str, Callable[..., object]] = {
    "ours": ours, "tornado": tornado, "fastapi": fastapi, "mlserver": mlserver,
}  # fmt: skip


def _python(peer: str) -> Path:
    """The interpreter of a peer's environment, which is made where it is missing."""
    home = PEERS / peer
    done = home / ".ready"
    if not done.exists():
        subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
        install = [str(home / "bin" / "python"), "-m", "pip", "install", "--quiet"]
        subprocess.run([*install, *_PACKAGES[peer]], check=True)
        done.touch()
    return home / "bin" / "python"


@contextmanager
def _running(
    name: str, command: list[str], port: int, paths: dict[str, str], folder: Path
) -> Iterator[RunningServer]:
    log = folder / f"{name}-{port}.log"
    with log.open("w") as said:
        process = subprocess.Popen(
            command, stdout=said, stderr=said, cwd=ROOT if name in _OURS else folder
        )
    try:
        _await_ready(process, port, log)
        yield RunningServer(name, process.pid, port, paths)
    finally:
        process.terminate()
        process.wait(_READY)


def _await_ready(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    end = time.monotonic() + _READY
    while time.monotonic() < end and process.poll() is None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/v2/health/ready") as reply:
                if reply.status == 200:
                    return
        except OSError:
            time.sleep(0.05)
    raise SystemExit(f"{log.name} never got ready: {log.read_text()[-2000:]}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
