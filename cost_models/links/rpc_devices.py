"""What it takes to reach a board: copies there and back, and the calls of its kernels.

A board (`tvm_hetero.platform.rpc_endpoint`) times its kernels itself, so their times are those of
its clock. What the network adds is measured from here, once a board:

link    a copy of some bytes there or back: a latency, and a rate. What it takes to ask the process
        that holds the connection is in the latencies, one half there and one half back: whatever
        is run on the board is asked for once
call    asking for a kernel and hearing that it is done, which is added to what each kernel costs

On a board nothing is thrown out of its caches before a kernel is timed (its TVM calls a kernel once
before it looks at the clock, which would bring the weights back), and no network is run on it in
place: there kernels are not timed one by one. So its costs are those of kernels alone, with weights
that are warm as far as its caches hold them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tvm_hetero.cost_models.store import CostStore
from tvm_hetero.errors import ProfileError
from tvm_hetero.platform.devices import Device
from tvm_hetero.processes.child_process import Worker, WorkerLost
from tvm_hetero.rpc_devices.client import WORKER
from tvm_hetero.rpc_devices.endpoint_text import (
    PREPARE_SECONDS,
    board_question,
    lost_board,
    remote_of,
    unreachable_board,
)
from tvm_hetero.util.documents import canonical_json

# Part of every key: raise it when the way of measuring changes, so that old figures are not used.
METHOD = "boards/1"
READS = 15


@dataclass(frozen=True)
class BoardFigures:
    """What it takes to reach a board: latency (s) and rate (bytes/s) of copies, s of a call."""

    there: tuple[float, float]
    back: tuple[float, float]
    call: float


def measure_board(
    device: Device, store: CostStore | None = None, *, again: bool = False
) -> BoardFigures:
    """Measure how a board is reached, or find that in the store (unless `again`).

    Raises
    ------
    ProfileError
        If it cannot be reached.
    """
    store = CostStore() if store is None else store
    keys = [canonical_json([METHOD, remote_of(device).text, what]) for what in ("there", "back")]
    call_key = canonical_json([METHOD, remote_of(device).text, "call"])
    known = [None if again else store.find_link(key) for key in (*keys, call_key)]
    if known[0] is not None and known[1] is not None and known[2] is not None:
        return BoardFigures(known[0], known[1], known[2][0])
    found = _figures(device)
    figures = BoardFigures(
        _link_figures(found["there"], found["asking"] / 2),
        _link_figures(found["back"], found["asking"] / 2),
        _digits(min(found["call"])),
    )
    store.add_link(keys[0], *figures.there)
    store.add_link(keys[1], *figures.back)
    store.add_link(call_key, figures.call, 1.0)
    return figures


def _figures(device: Device) -> dict[str, Any]:
    """Have a child process measure."""
    with Worker(WORKER) as worker:
        try:
            answer = worker.ask({"ask": "prepare"}, PREPARE_SECONDS)
            if "error" not in answer:
                question = {"ask": "connect", **board_question(device)}
                answer = worker.ask(question, remote_of(device).timeout)
        except WorkerLost as lost:
            answer = {"error": str(lost)}
        if "error" in answer:
            raise ProfileError(unreachable_board(device, answer["error"]))
        try:
            answer = worker.ask({"ask": "figures"}, remote_of(device).timeout)
            answer["asking"] = min(_asking(worker) for _ in range(READS))
        except WorkerLost as lost:
            answer = {"lost": str(lost)}
    for key in ("lost", "error"):
        if key in answer:
            raise ProfileError(lost_board(device, answer[key]))
    return answer


def _asking(worker: Worker) -> float:
    """Seconds of a question to the child and its answer, the board aside."""
    start = time.perf_counter()
    worker.ask({"ask": "prepare"}, PREPARE_SECONDS)
    return time.perf_counter() - start


def _link_figures(
    copies: Mapping[str, Sequence[float]], more_seconds: float
) -> tuple[float, float]:
    """Latency (with `more_seconds`) and rate, from the seconds of copies by size."""
    least = {int(size): min(seconds) for size, seconds in copies.items()}
    small, large = min(least), max(least)
    seconds = max(least[large] - least[small], 1e-9)
    return _digits(least[small] + more_seconds), _digits((large - small) / seconds)


def _digits(value: float) -> float:
    """Three digits: more were not measured, and make platform files hard to read."""
    return float(f"{value:.3g}")
