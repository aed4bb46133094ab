"""Boards for tests: TVM's own RPC server in a process of its own, and a wire to it."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

KEY = "board"
# TVM's server takes seconds to start; on a busy machine many.
_STARTING = 120.0


class Server:
    """``python -m tvm.exec.rpc_server`` on the last core of this process, on a free port."""

    def __init__(self, log: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        core = max(os.sched_getaffinity(0))
        # tvm_ffi imports PyTorch where there is one, which takes longer than all the rest.
        without = log.parent / "without"
        without.mkdir()
        (without / "torch.py").write_text("raise ImportError('a board has none')\n")
        command = [sys.executable, "-m", "tvm.exec.rpc_server", "--host", "127.0.0.1"]
        command += ["--port", str(self.port), "--port-end", str(self.port + 1), "--key", KEY]
        self._log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                command,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                # TVM would pin its threads to other cores.
                env={**os.environ, "TVM_BIND_THREADS": "0", "PYTHONPATH": str(without)},
                preexec_fn=lambda: os.sched_setaffinity(0, [core]),
            )

    def wait(self) -> None:
        """Wait until it listens."""
        end = time.monotonic() + _STARTING
        while time.monotonic() < end:
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", self.port)).close()
                return
            assert self._process.poll() is None, self._log.read_text()
            time.sleep(0.02)
        raise AssertionError(f"the RPC server did not start: {self._log.read_text()}")

    def kill(self) -> None:
        """End it and all that it started, at once."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


@contextlib.contextmanager
def tracked(folder: Path) -> Iterator[str]:
    """A tracker that has one board, both TVM's own, in a fork of this process; its address."""
    listener = socket.create_server(("127.0.0.1", 0))
    address = f"127.0.0.1:{listener.getsockname()[1]}"
    fork = multiprocessing.get_context("fork").Process(
        target=_serve_tracked, args=(listener, address, folder), daemon=False
    )
    fork.start()
    listener.close()
    try:
        yield address
    finally:
        if fork.pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(fork.pid, signal.SIGKILL)
        fork.kill()
        fork.join()


def _serve_tracked(listener: socket.socket, address: str, folder: Path) -> None:
    os.setsid()
    os.chdir(folder)
    from tvm.rpc.server import PopenRPCServerState
    from tvm.rpc.tracker import _tracker_server

    threading.Thread(target=_tracker_server, args=(listener, "stop"), daemon=True).start()
    host, _, port = address.partition(":")
    with socket.socket() as probe:
        probe.bind((host, 0))
        own = int(probe.getsockname()[1])
    PopenRPCServerState(
        host, own, own + 1, tracker_addr=(host, int(port)), key=KEY, silent=True
    ).thread.join()


class Wire:
    """What is between a client and a server: it may be cut, or swallow what is sent.

    Attributes
    ----------
    port : where clients connect.
    altered : applied to what clients send.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.altered: Callable[[bytes], bytes] = lambda data: data
        self._open = threading.Event()
        self._open.set()
        self._whole = True
        self._ends: list[socket.socket] = []
        threading.Thread(target=self._listen, daemon=True).start()

    def cut(self) -> None:
        """Close all connections; new ones are closed at once."""
        self._whole = False
        self._close_all()

    def mend(self) -> None:
        """Connect again whoever wants it."""
        self._whole = True
        self._open.set()

    def swallow(self) -> None:
        """Let nothing through any more, and close nothing."""
        self._open.clear()

    def close(self) -> None:
        """End everything."""
        self.cut()
        self._open.set()
        self._listener.close()

    def _close_all(self) -> None:
        ends, self._ends = self._ends, []
        for end in ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _listen(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                if not self._whole:
                    near.close()
                    continue
                far = socket.create_connection(("127.0.0.1", self._server.port))
                self._ends += [near, far]
                for ends in ((near, far, True), (far, near, False)):
                    threading.Thread(target=self._pass_on, args=ends, daemon=True).start()

    def _pass_on(self, src: socket.socket, dst: socket.socket, from_client: bool) -> None:
        with contextlib.suppress(OSError):
            while data := src.recv(1 << 16):
                self._open.wait()
                dst.sendall(self.altered(data) if from_client else data)
        for end in (src, dst):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
