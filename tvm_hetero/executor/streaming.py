"""Batches one behind the other: throughput, measured, and results of a stream of inputs in order.

A plan made for throughput promises that a batch ends every L seconds, where L is the work that the
busiest worker has per batch. Batch after batch, `run` cannot keep that: it takes the whole way of a
batch through all workers. A stream can, since each worker works on another batch meanwhile (the
argument stands in ``src/executor/stages.h``).

What is measured. The time between two batches in the steady state, when `frames` batches are in
flight and so every worker has all of its steps to do in every period. That leaves out the fill (the
first batches, before which some workers have nothing to do yet; caches get warm, too) and the drain
(when no more batches begin, workers run out of steps from the front on). A batch begins when the
one `frames` before it ends, so that there are `frames` in flight until the last that counts ends if
as many stand behind it:

    batches 0 ... f-1 | f ... f+n-1     | f+n ... 2f+n-1         f = frames
    fill              | n that count    | drain

    seconds per batch = (end of batch f+n-1  -  end of batch f-1) / n
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from tvm_hetero.errors import UsageError
from tvm_hetero.executor.inputs import RequestTensors
from tvm_hetero.executor.native import NativeExecutor

if TYPE_CHECKING:
    from tvm_hetero.executor.plan_switch import PlanSwitch, Ticket

FOR_EVER = -1.0
NO_DEADLINE = 0.0


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
    fill = drain = executor.frames
    ends = executor.run_stream(fill + batches + drain)
    return (ends[fill + batches - 1] - ends[fill - 1]) / batches


def stream(
    plans: PlanSwitch, requests: Iterable[RequestTensors]
) -> Iterator[tuple[RequestTensors, list[Any]]]:
    """Each request with the plan's outputs of it, in order.

    Requests are fetched while fewer than `PlanSwitch.frames` are in flight or wait to be handed out,
    and there is room in the executor, which others may use too. An output is handed out as soon as
    room is needed, or no more requests come. If a request fails, or `requests` does, what stands
    before is handed out first, as by a loop of runs. Ending the iterator early cancels the rest.
    """
    waiting: deque[tuple[Ticket, RequestTensors]] = deque()
    source = iter(requests)
    failure: Exception | None = None
    try:
        while True:
            try:
                request = next(source)
            except StopIteration:
                break
            except Exception as error:  # of the caller's own iterator, or of inputs that are wrong
                failure = error
                break
            while (ticket := _submit(plans, request, wait=not waiting)) is None:
                yield _taken(waiting)
            waiting.append((ticket, request))
            if len(waiting) > plans.frames:
                yield _taken(waiting)
        while waiting:
            yield _taken(waiting)
        if failure is not None:
            raise failure
    finally:
        for ticket, _ in waiting:
            ticket.active.native.forget(ticket.number)  # cancels it


def _submit(plans: PlanSwitch, request: RequestTensors, wait: bool) -> Ticket | None:
    """Its ticket; None if there is no room. Who has nothing in flight himself waits for others."""
    return plans.submit(request.tensors, NO_DEADLINE, FOR_EVER if wait else 0.0)


def _taken(waiting: deque[tuple[Ticket, RequestTensors]]) -> tuple[RequestTensors, list[Any]]:
    """Wait for the oldest; it stays among those that wait until it is done."""
    ticket, request = waiting[0]
    executor = ticket.active.native
    executor.wait(ticket.number, FOR_EVER)
    waiting.popleft()
    return request, list(executor.take(ticket.number))
