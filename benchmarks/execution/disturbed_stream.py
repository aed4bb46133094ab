"""A full stream that a program of ours disturbs for a while, and what all other programs took.

With b the seconds that all cores were busy while the stream ran, o those of this process and d
those of the program that disturbs:

    others = (b - o - d) / wall                                       cores' worth, on average

A program that nobody asked for slows whichever stream it meets, in quiet too, and so tells of no
policy: where it takes more than `unrest.CALM` of the cores the stream is to be measured again.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

from benchmarks.execution.full_stream import FullStream
from tvm_hetero.cli.shared.background_load import Neighbours, Reading, read_times
from tvm_hetero.executor.executor import Executor
from tvm_hetero.processes.disturbers import disturb


@dataclass(frozen=True)
class DisturbedStream:
    """Requests/s before, while, and after; seconds of each request, rising; others: see above."""

    quiet: float
    disturbed: float
    after: float
    latencies: list[float]
    others: float

    @property
    def unrest(self) -> float:
        """What others took, as a share of the machine."""
        return self.others / (os.cpu_count() or 1)


def run_disturbed(
    executor: Executor, kind: str, core: int, seconds: float, around: float
) -> DisturbedStream:
    """Stream for `around` seconds in quiet, `seconds` disturbed, `around` in quiet again.

    The first half of the quiet before fills pipeline and caches, and of the quiet after a policy
    may need the first half: the second halves count.
    """
    neighbours = Neighbours(read_with_children)
    with FullStream(executor) as stream:
        time.sleep(around)
        onset = time.monotonic()
        with disturb(kind, core, seconds + 60):
            begun = time.monotonic()
            time.sleep(seconds)
            end = time.monotonic()
        time.sleep(around)
        last = time.monotonic()
    return DisturbedStream(
        quiet=stream.rate(onset - around / 2, onset), disturbed=stream.rate(begun, end),
        after=stream.rate(last - around / 2, last), latencies=stream.latencies(),
        others=neighbours.busy_cores(),
    )  # fmt: skip


def read_with_children() -> Reading:
    """Times of now, those of children that have ended counted as ours."""
    found, times = read_times(), os.times()
    return found._replace(own=found.own + times.children_user + times.children_system)
