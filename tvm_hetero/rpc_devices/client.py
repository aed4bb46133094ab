"""Boards that are reached by TVM's RPC, as an executor sees them: programs that are run there.

Each board has a child process of its own (`tvm_hetero.rpc_devices.worker`) that holds the
connection. So boards work at once, whoever holds this interpreter's lock; a call that never comes
back is ended with its process; and what TVM's client does where a connection breaks is done to
that process alone.

All executors of this process share the child of a board, since its server has one client at a time.
It is started when the first program comes and ends with the last one; then the board is free.

What a board makes comes back. What a later step there reads it keeps besides, for all requests in
flight: what it has kept need not go there again.

When a board goes away, the request that needs it fails at once (or, where the board just falls
silent, after its `timeout`), and so does each one that finds it still away. The next one after it
is back connects anew and takes there again what is not there any more: libraries, weights, tensors.
"""

from __future__ import annotations

import contextlib
import itertools
import mmap
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from tvm_hetero.errors import RunError
from tvm_hetero.platform.devices import Device
from tvm_hetero.processes.child_process import Worker, WorkerLost
from tvm_hetero.rpc_devices.endpoint_text import (
    PREPARE_SECONDS,
    SECONDS_PER_BYTE,
    board_question,
    lost_board,
    remote_of,
    unreachable_board,
)
from tvm_hetero.util.documents import canonical_json

WORKER = "tvm_hetero.rpc_devices.worker"
_ALIGNMENT = 64

Bytes = np.ndarray[Any, np.dtype[np.uint8]]


@dataclass(frozen=True)
class RpcProgram:
    """What a plan wants of a board.

    Attributes
    ----------
    library : the compiled kernels.
    weights : by name.
    steps : for each of its steps there ``ins`` and ``outs`` (their ``bytes``) and ``calls``.
    """

    library: Path
    weights: Mapping[str, Bytes]
    steps: Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Kept:
    """A tensor that a board has kept: where, and in which of its connections."""

    place: tuple[int, int]
    connection: int


class Board:
    """One board; see the file's text. Any thread may use it; who comes second waits."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self._lock = Lock()
        self._numbers = itertools.count()
        self._programs: dict[int, RpcProgram] = {}
        self._there: set[int] = set()  # programs that the board has
        self._worker: Worker | None = None
        self._connected = False
        self._connections = 0
        self._region = _Region(0)

    def add(self, program: RpcProgram) -> int:
        """Take a program to the board.

        Returns
        -------
        int
            Its number, for `run` and `remove`.

        Raises
        ------
        RunError
            If the board cannot be reached, or the program does not run there.
        """
        with self._lock:
            number = next(self._numbers)
            self._programs[number] = program
            try:
                self._ready(number)
            except BaseException:
                self._forget(number)
                raise
        return number

    def run(
        self,
        number: int,
        step: int,
        ins: Sequence[Bytes],
        outs: Sequence[Bytes],
        had: Sequence[Kept | None],
        keep: Sequence[tuple[int, int] | None],
    ) -> int:
        """Run a step of a program: `ins` go to the board, what it makes comes into `outs`.

        Parameters
        ----------
        had : which of `ins` the board has kept; what it has lost since goes there again.
        keep : where each of `outs` is to be kept, if it is: a slot, and a number.

        Returns
        -------
        int
            Of the connection that they were kept in, for `Kept`.

        Raises
        ------
        RunError
            If the board was lost or cannot be reached again, or a kernel failed there.
        """
        with self._lock:
            if number not in self._programs:
                raise RunError(f"device {self.device.name!r}: its executor is closed")
            self._ready(number)
            row = self._programs[number].steps[step]
            now = self._connections
            places = [kept.place if kept and kept.connection == now else None for kept in had]
            for tensor, data, kept_at in zip(row["ins"], ins, places, strict=True):
                if kept_at is None:
                    self._region.write(tensor["offset"], data)
            question = {"ask": "run", "program": number, "step": step}
            self._ask({**question, "had": places, "keep": list(keep)})
            for tensor, data in zip(row["outs"], outs, strict=True):
                self._region.read(tensor["offset"], data)
            return now

    def remove(self, number: int) -> None:
        """Let go of a program; with the last one the connection ends, whatever runs there."""
        worker = self._worker
        if worker is not None and set(self._programs) == {number}:
            worker.kill()  # who is waiting for it holds the lock
        with self._lock:
            self._forget(number)

    def _ready(self, number: int) -> None:
        """See to it that the board is connected and has a program."""
        if not self._connected:
            self._connect()
        if number in self._there:
            return
        program = self._programs[number]
        self._make_room(program)
        size = program.library.stat().st_size
        self._ask(
            {
                "ask": "program",
                "program": number,
                "library": str(program.library),
                "steps": program.steps,
            }
        )
        for name, data in program.weights.items():
            self._region.write(0, data)
            question = {"ask": "weight", "program": number, "name": name, "bytes": data.nbytes}
            self._ask(question, data.nbytes * SECONDS_PER_BYTE)
        self._ask({"ask": "ready", "program": number}, size * SECONDS_PER_BYTE)
        self._there.add(number)

    def _connect(self) -> None:
        try:
            if self._worker is None:
                # The kernel ends a child with the thread that started it, maybe an executor's.
                self._worker = _STARTER.submit(Worker, WORKER).result()
                self._worker.ask({"ask": "prepare"}, PREPARE_SECONDS)
            question = {"ask": "connect", **board_question(self.device)}
            answer = self._worker.ask(question, remote_of(self.device).timeout)
        except WorkerLost as lost:
            self._drop()
            answer = {"error": str(lost)}
        except BaseException:
            self._drop()
            raise
        if "error" in answer:
            raise RunError(unreachable_board(self.device, answer["error"]))
        self._connected = True
        self._connections += 1

    def _ask(self, question: Mapping[str, Any], more_seconds: float = 0.0) -> None:
        """Ask the child, which has `more_seconds` beside the board's timeout."""
        assert self._worker is not None
        try:
            seconds = remote_of(self.device).timeout + more_seconds
            answer = self._worker.ask(dict(question), seconds)
        except WorkerLost as lost:
            self._drop()
            answer = {"lost": str(lost)}
        except BaseException:
            self._drop()
            raise
        if "lost" in answer:
            self._connected = False
            self._there.clear()
            raise RunError(lost_board(self.device, answer["lost"]))
        if "error" in answer:
            raise RunError(
                f"device {self.device.name!r} ({remote_of(self.device).text}): {answer['error']}"
            )

    def _make_room(self, program: RpcProgram) -> None:
        """Have a region that is large enough for a program."""
        ends = [t["offset"] + t["bytes"] for s in program.steps for t in (*s["ins"], *s["outs"])]
        size = max([1, *ends, *(data.nbytes for data in program.weights.values())])
        if size > self._region.size:
            self._region = _Region(size)
            self._ask({"ask": "region", "path": self._region.path, "bytes": size})

    def _forget(self, number: int) -> None:
        self._programs.pop(number, None)
        if not self._programs:
            self._drop()
        elif self._connected:  # it may have a half of the program
            self._there.discard(number)
            with contextlib.suppress(RunError):  # who needs the board will hear of it
                self._ask({"ask": "forget", "program": number})

    def _drop(self) -> None:
        """End the child: the connection ends with it, and all that the board has is gone."""
        if self._worker is not None:
            self._worker.close()
        self._worker = None
        self._connected = False
        self._there.clear()
        self._region = _Region(0)


class _Region:
    """Memory that is shared with a child process."""

    def __init__(self, size: int) -> None:
        self.size = size
        if not size:
            return
        self._handle = os.memfd_create("tvm_hetero.board", os.MFD_CLOEXEC)
        os.ftruncate(self._handle, size)
        self._bytes = np.frombuffer(mmap.mmap(self._handle, size), np.uint8)

    @property
    def path(self) -> str:
        """Where a child of this process finds it."""
        return f"/proc/{os.getpid()}/fd/{self._handle}"

    def write(self, offset: int, data: Bytes) -> None:
        self._bytes[offset : offset + data.nbytes] = data

    def read(self, offset: int, data: Bytes) -> None:
        data[:] = self._bytes[offset : offset + data.nbytes]

    def __del__(self) -> None:
        if self.size:
            os.close(self._handle)


def laid_out(sizes: Sequence[int], start: int = 0) -> list[dict[str, int]]:
    """Tensors of these bytes, one behind the other in a region."""
    rows = []
    for size in sizes:
        rows.append({"bytes": size, "offset": start})
        start += -(-size // _ALIGNMENT) * _ALIGNMENT
    return rows


_STARTER = ThreadPoolExecutor(1, "tvm_hetero.board")
_BOARDS: dict[tuple[Any, ...], Board] = {}
_BOARDS_LOCK = Lock()


def board_of(device: Device) -> Board:
    """The board of a device, the same for all executors of this process."""
    remote = remote_of(device)
    # Two devices with one key of a tracker are two boards; one server is one board.
    name = device.name if remote.server is None else ""
    key = (remote, canonical_json(dict(device.target or {})), name)
    with _BOARDS_LOCK:
        return _BOARDS.setdefault(key, Board(device))
