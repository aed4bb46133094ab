"""Traces for chrome://tracing and Perfetto: the plan and a measured run side by side.

The format is the Trace Event Format's JSON object ("Trace Event Format", Google, 2016): complete
events (``"ph": "X"``) with microseconds, and metadata events that name processes and threads. A
group (the plan, the measured run) is a process, a lane is a thread.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tvm_hetero.report.schedule.intervals import Interval, lane_order
from tvm_hetero.util.documents import write_atomic


def chrome_trace(
    groups: Mapping[str, Sequence[Interval]], lanes: Sequence[str] = ()
) -> dict[str, Any]:
    """The trace document of several groups of intervals; `lanes` come first in each."""
    events: list[dict[str, Any]] = []
    for pid, (group, intervals) in enumerate(groups.items(), start=1):
        order = lane_order(intervals, lanes)
        events.extend(_names(pid, group, order))
        threads = {lane: tid for tid, lane in enumerate(order, start=1)}
        events.extend(_event(pid, threads[i.lane], i) for i in intervals)
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def save_trace(
    path: str | os.PathLike[str],
    groups: Mapping[str, Sequence[Interval]],
    lanes: Sequence[str] = (),
) -> None:
    """Write the trace document (see `chrome_trace`), whole or not at all."""
    document = chrome_trace(groups, lanes)
    rows = ",\n".join(json.dumps(event, allow_nan=False) for event in document["traceEvents"])
    write_atomic(path, f'{{"displayTimeUnit": "ms", "traceEvents": [\n{rows}\n]}}\n')


def _names(pid: int, group: str, lanes: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Metadata: the name and place of a process and of its threads."""
    yield _metadata("process_name", pid, 0, {"name": group})
    yield _metadata("process_sort_index", pid, 0, {"sort_index": pid})
    for tid, lane in enumerate(lanes, start=1):
        yield _metadata("thread_name", pid, tid, {"name": lane})
        yield _metadata("thread_sort_index", pid, tid, {"sort_index": tid})


def _metadata(name: str, pid: int, tid: int, args: dict[str, Any]) -> dict[str, Any]:
    return {"ph": "M", "name": name, "pid": pid, "tid": tid, "args": args}


def _event(pid: int, tid: int, interval: Interval) -> dict[str, Any]:
    event: dict[str, Any] = {
        "ph": "X",
        "name": interval.name,
        "cat": interval.kind or "task",
        "pid": pid,
        "tid": tid,
        "ts": interval.start * 1e6,
        "dur": max(0.0, interval.seconds) * 1e6,
    }
    if interval.detail:
        event["args"] = {"detail": interval.detail}
    return event
