"""The child process that works with a board: ``python -m tvm_hetero.rpc_devices.worker``.

It answers questions (lines of JSON, see `tvm_hetero.processes.child_server`) of a
`tvm_hetero.rpc_devices.client.Board`, or of who measures links
(`tvm_hetero.cost_models.links.rpc_devices`). Tensors come and go through a *region*: memory that it
shares with its parent.

On the board everything is there before the first run: the library, the weights, and a buffer for
each in-slot, out-slot and place of scratch memory, which steps share, since a board does one at a
time. So a run is one copy for each tensor that goes there, one call for each kernel, and one copy
for each tensor that comes back. Buffers are bytes; what kernels see are views of them. (A view that
does not begin where its buffer does is nothing for kernels, which read where the buffer begins; so
scratch memory is a buffer for each offset, not one for all.) What a later step reads too may be
*kept*, in a buffer of its own.
"""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tvm_hetero.processes.child_server import serve
from tvm_hetero.rpc_devices.session import BoardSession, last_words

# A small copy shows the latency, a large one the rate. (s, bytes)
COPIES = (4 * 1024, 1024 * 1024)
READS = 15
# Where a tensor of a call is: in what the step reads or makes, in its scratch memory, or a weight.
PLACES = ("in", "out", "scratch", "constant")


@dataclass
class _RpcStep:
    """A step on the board: bytes that go there, calls of kernels, bytes that come back."""

    ins: list[Any] = field(default_factory=list)
    outs: list[Any] = field(default_factory=list)
    calls: list[tuple[Any, list[Any]]] = field(default_factory=list)
    offsets: tuple[list[int], ...] = ()


@dataclass
class _RpcProgram:
    """What a plan wants of the board."""

    question: Mapping[str, Any]
    buffers: dict[tuple[str, Any], Any] = field(default_factory=dict)
    kept: dict[tuple[int, ...], Any] = field(default_factory=dict)
    steps: list[_RpcStep] = field(default_factory=list)


class Desk:
    """Answers the parent's questions."""

    def __init__(self) -> None:
        self._board: BoardSession | None = None
        self._region: np.ndarray[Any, Any] = np.empty(0, np.uint8)
        self._programs: dict[int, _RpcProgram] = {}

    def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        """Answer one question; ``lost`` says that the connection is gone."""
        if question["ask"] == "prepare":
            import tvm  # noqa: F401  # which takes seconds, and shall not count as the board's

            return {"ok": True}
        if question["ask"] == "connect":
            self._programs.clear()
            try:
                self._board = BoardSession(question)
            except Exception as error:  # whatever TVM raises
                return {"error": last_words(error)}
            return {"ok": True}
        assert self._board is not None
        try:
            return self._ask_board(self._board, question)
        except Exception as error:
            if not self._board.alive():
                return {"lost": "the connection was closed"}
            return {"error": last_words(error)}

    def _ask_board(self, board: BoardSession, question: dict[str, Any]) -> dict[str, Any]:
        match question["ask"]:
            case "figures":
                return figures(board)
            case "region":
                self._region = _mapped(question["path"], question["bytes"])
            case "program":
                self._programs[question["program"]] = _RpcProgram(question)
            case "weight":
                program = self._programs[question["program"]]
                _fill(program, question, self._region, board)
            case "ready":
                _make_ready(self._programs[question["program"]], board)
            case "run":
                self._run(self._programs[question["program"]], question, board)
            case "forget":
                self._programs.pop(question["program"], None)
            case other:
                raise ValueError(f"unknown question {other!r}")
        return {"ok": True}

    def _run(self, program: _RpcProgram, question: Mapping[str, Any], board: BoardSession) -> None:
        step = program.steps[question["step"]]
        there, back = step.offsets
        for view, offset, place in zip(step.ins, there, question["had"], strict=True):
            if view is not None and place is not None:
                program.kept[tuple(place)].copyto(view)
            elif view is not None:
                view.copyfrom(self._region[offset : offset + view.shape[0]])
        for kernel, args in step.calls:
            kernel(*args)
        for view, offset, place in zip(step.outs, back, question["keep"], strict=True):
            if view is None:
                continue
            self._region[offset : offset + view.shape[0]] = view.numpy()
            if place is not None:
                key = tuple(place)
                if key not in program.kept:
                    program.kept[key] = _empty(view.shape[0], board)
                view.copyto(program.kept[key])


def _mapped(path: str, size: int) -> np.ndarray[Any, Any]:
    """The parent's memory, as bytes."""
    handle = os.open(path, os.O_RDWR)
    try:
        return np.frombuffer(mmap.mmap(handle, size), np.uint8)
    finally:
        os.close(handle)


def _fill(
    program: _RpcProgram,
    question: Mapping[str, Any],
    region: np.ndarray[Any, Any],
    board: BoardSession,
) -> None:
    """Take a weight to the board."""
    size = question["bytes"]
    buffer = _empty(size, board)
    if size:
        _view(buffer, [size], "uint8").copyfrom(region[:size])
    program.buffers["constant", question["name"]] = buffer


def _make_ready(program: _RpcProgram, board: BoardSession) -> None:
    """Load a program's library and lay out its memory; its weights are there."""
    library = board.load(program.question["library"])
    steps = program.question["steps"]
    for key, size in _sizes(steps).items():
        program.buffers[key] = _empty(size, board)
    kernels: dict[str, Any] = {}
    for row in steps:
        step = _RpcStep()
        step.offsets = tuple([t["offset"] for t in row[key]] for key in ("ins", "outs"))
        step.ins = [_io_view(program, "in", i, t["bytes"]) for i, t in enumerate(row["ins"])]
        step.outs = [_io_view(program, "out", i, t["bytes"]) for i, t in enumerate(row["outs"])]
        for call in row["calls"]:
            name = call["kernel"]
            if name not in kernels:
                kernels[name] = library[name]
            args = [_view(program.buffers[_key(a)], a["shape"], a["dtype"]) for a in call["args"]]
            step.calls.append((kernels[name], args))
        program.steps.append(step)


def _sizes(steps: Sequence[Mapping[str, Any]]) -> dict[tuple[str, Any], int]:
    """Bytes of the buffers that steps share; weights have their own already."""
    sizes: dict[tuple[str, Any], int] = {}

    def at_least(key: tuple[str, Any], size: int) -> None:
        sizes[key] = max(sizes.get(key, 0), size)

    for row in steps:
        for kind in ("in", "out"):
            for i, tensor in enumerate(row[f"{kind}s"]):
                at_least((kind, i), tensor["bytes"])
        for call in row["calls"]:
            for arg in call["args"]:
                if "scratch" in arg:
                    at_least(_key(arg), arg["bytes"])
    return sizes


def _key(arg: Mapping[str, Any]) -> tuple[str, Any]:
    """The buffer that an argument is in."""
    return next((place, arg[place]) for place in PLACES if place in arg)


def _io_view(program: _RpcProgram, kind: str, number: int, size: int) -> Any:
    """The bytes of an in-slot or out-slot; None if it has none."""
    return _view(program.buffers[kind, number], [size], "uint8") if size else None


def _empty(size: int, board: BoardSession) -> Any:
    import tvm

    return tvm.runtime.empty((max(size, 1),), "uint8", board.device)


def _view(buffer: Any, shape: Sequence[int], dtype: str) -> Any:
    import tvm_ffi

    return buffer._create_view(tvm_ffi.Shape(shape), dtype)


def figures(board: BoardSession) -> dict[str, Any]:
    """Seconds of copies there and back by size, and of a call that does next to nothing."""
    import tvm

    there: dict[str, list[float]] = {}
    back: dict[str, list[float]] = {}
    for size in COPIES:
        data = np.full(size, 1, np.uint8)
        tensor = tvm.runtime.tensor(data, board.device)
        there[str(size)] = _timed(lambda t=tensor, d=data: t.copyfrom(d))
        back[str(size)] = _timed(lambda t=tensor: t.numpy())
    return {"there": there, "back": back, "call": _timed(board.device.sync)}


def _timed(action: Any) -> list[float]:
    seconds = []
    for _ in range(READS):
        start = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - start)
    return seconds


if __name__ == "__main__":
    serve(Desk().answer)
