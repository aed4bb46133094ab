"""ONNX Runtime in a process of its own, which loads nothing else: TVM would take seconds."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any


def median_ms(call: Callable[[], object], runs: int) -> float:
    """Median of the times of calls, after a few that are not counted; milliseconds."""
    times = []
    for _ in range(runs + 3):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return 1e3 * statistics.median(times[3:])


def serve_onnxruntime(pipe: Any, model: bytes, feeds: tuple[Any, Any], runs: int) -> None:
    """In a process of its own: answer each request with times and results, until it is ended."""
    import onnxruntime

    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    results = [session.run(None, {"image": image})[0] for image in feeds]
    while True:
        pipe.recv()
        times = [median_ms(partial(session.run, None, {"image": i}), runs) for i in feeds]
        pipe.send((times, results))
