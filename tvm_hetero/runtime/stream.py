"""Batches one behind the other: throughput, measured, and results of a stream of inputs in order.

A plan made for throughput promises that a batch ends every L seconds, where L is the work that the
busiest worker has per batch. Batch after batch, `run` cannot keep that: it takes the whole way of a
batch through all workers. A stream can, since each worker works on another batch meanwhile (the
argument stands in ``src/stages.h``).

What is measured. The time between two batches in the steady state, when every worker has all of
its steps to do in every period. That leaves out the fill (the first `frames` batches, before
which some workers have nothing to do yet; caches get warm, too) and the drain (after the last
batch has been pushed, workers run out of steps from the front on):

    batches 0 ... f-1 | f ... f+n-1     | f+n ... f+n+s-1        f = frames, s = last stage
    fill              | n that count    | present while the n-th ends

    seconds per batch = (end of batch f+n-1  -  end of batch f-1) / n
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from tvm_hetero.errors import UsageError
from tvm_hetero.runtime.native import NativeExecutor

if TYPE_CHECKING:
    from tvm_ffi import Tensor


def steady_seconds(executor: NativeExecutor, batches: int) -> float:
    """Seconds per batch in the steady state (see the file's text), on the inputs that are set.

    Raises
    ------
    UsageError
        If `batches`, the number of batches that count, is less than one.
    RunError
        If a step fails, or something is not set.
    """
    if batches < 1:
        raise UsageError(f"{batches} batches cannot be measured, expected one or more")
    fill, drain = executor.frames, max(executor.stages, default=0)
    ends = executor.run_stream(fill + batches + drain)
    return (ends[fill + batches - 1] - ends[fill - 1]) / batches


def stream(
    executor: NativeExecutor, batches: Iterable[Sequence[Tensor]]
) -> Iterator[list[Tensor]]:
    """The outputs of each batch of inputs, in order.

    Inputs are fetched as long as there is room for them, so `executor.frames` + 1 batches are in
    flight at most; an output is handed out as soon as room is needed, or no more inputs come.
    Ending the iterator early drops what is in flight.
    """
    executor.open_stream()
    try:
        waiting = 0
        for inputs in batches:
            while not executor.push(inputs):
                yield executor.pop()
                waiting -= 1
            waiting += 1
        for _ in range(waiting):
            yield executor.pop()
    finally:
        executor.close_stream()
