"""Requests that were submitted: futures, and the thread that completes them.

The executor works on requests without Python. What a future promises, to wake who waits and to call
back, needs a thread of Python that waits for requests to end: one an executor, which begins with
the first `submit`, and ends when the executor is closed.

    submit            C++ gives a ticket for the request; a `Pending` is entered under it
    next_done         the thread gets the ticket of a request that ended, in the order of the ends,
                      takes its outputs or error, and settles the `Pending`, which calls back
    cancel            settles it at once, from whatever thread; its ticket comes out later as well

A future is settled once: who comes first does it (`Pending._first`). The thread holds no executor,
so that one which no one holds any more is collected (its `Pending`s hold it while in flight).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, wait
from typing import Any

from tvm_hetero.errors import RunError
from tvm_hetero.executor.native import NativeExecutor

# From the outputs of the plan to those of the model.
Finish = Callable[[list[Any]], list[Any]]


class Pending(Future[list[Any]]):
    """A request in flight: a future of its outputs.

    All of `concurrent.futures.Future`, and `asyncio.wrap_future`, work with it. Unlike those of
    thread pools it can be cancelled while it runs: the kernel that runs then is the last.

    Callbacks run in the executor's completing thread (or in that which cancels), one after another:
    they may submit again, but must not wait for another request.
    """

    def __init__(
        self,
        native: NativeExecutor,
        finish: Finish,
        held: object,
        at_end: Callable[[], None] | None = None,
    ) -> None:
        super().__init__()
        self._held: object | None = held  # inputs and executor: not collected before the end
        # None when it has ended: who keeps futures keeps no plan that is through.
        self._native: NativeExecutor | None = native
        self._finish = finish
        # What is free again when no kernel of the request runs any more, which of one that was
        # cancelled is later than its future says.
        self._at_end = at_end
        self._once = threading.Lock()
        self.ticket = 0

    def cancel(self) -> bool:
        """Give the request up, even if it runs; False if it is done already."""
        native = self._native
        if self.done() or native is None:
            return self.cancelled()
        try:
            if not native.cancel(self.ticket):
                return self.cancelled()
        except RunError:  # it was taken just now
            return self.cancelled()
        self.settle_cancelled()
        wait([self])  # if the completing thread was first, it may not have finished
        return True

    def running(self) -> bool:
        """Whether it is in flight."""
        return not self.done()

    def settle(self) -> None:
        """Take what came of it from the executor; for a request that has ended."""
        self._end()
        native, self._native = self._native, None
        assert native is not None, "requests end once"
        try:
            outputs = self._finish(native.take(self.ticket))
        except CancelledError:
            self.settle_cancelled()
        except Exception as error:
            self.settle_error(error)
        else:
            if self._first():
                self.set_running_or_notify_cancel()
                self.set_result(outputs)

    def settle_cancelled(self) -> None:
        """Mark it as cancelled."""
        if self._first():
            super().cancel()
            self.set_running_or_notify_cancel()  # wakes `concurrent.futures.wait`

    def settle_error(self, error: Exception) -> None:
        """Mark it as failed, for good: nothing of it runs any more."""
        self._end()
        self._native = None
        if self._first():
            self.set_running_or_notify_cancel()
            self.set_exception(error)

    def _end(self) -> None:
        at_end, self._at_end = self._at_end, None
        if at_end is not None:
            at_end()

    def _first(self) -> bool:
        """Whether this is the first call: who made it settles the future."""
        if not self._once.acquire(blocking=False):
            return False
        self._held = None
        return True


class Completions:
    """The requests in flight that have a future, and the thread that completes them."""

    def __init__(self, native: NativeExecutor) -> None:
        self._native = native
        self._lock = threading.Lock()
        self._pending: dict[int, Pending] = {}
        # Requests that ended before their future was entered.
        self._early: set[int] = set()
        self._thread: threading.Thread | None = None
        self._ended = False

    def start(self) -> None:
        """Start the thread, if it does not run; before the first request is submitted."""
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._ended = False
                self._thread = threading.Thread(
                    target=_complete, args=(self,), name="tvm_hetero completions", daemon=True
                )
                self._thread.start()

    def enter(self, pending: Pending, ticket: int) -> None:
        """The future of a request that was submitted under `ticket`."""
        pending.ticket = ticket
        with self._lock:
            ended = self._ended or ticket in self._early
            self._early.discard(ticket)
            if not ended:
                self._pending[ticket] = pending
        if ended:
            pending.settle()

    def join(self, seconds: float) -> None:
        """Wait for the thread's end (not from within a callback)."""
        with self._lock:
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(seconds)

    def complete_next(self) -> bool:
        """Wait for the end of a request and settle its future; False when the executor closed."""
        ticket = self._native.next_done(-1.0)
        if not ticket:
            return False
        with self._lock:
            pending = self._pending.pop(ticket, None)
            if pending is None:
                self._early.add(ticket)
        if pending is not None:
            pending.settle()
        return True

    def fail_rest(self) -> None:
        """Settle whatever is left when the executor has ended."""
        with self._lock:
            self._ended = True
            left = list(self._pending.values())
            self._pending.clear()
        for pending in left:
            pending.settle_error(RunError("the executor was closed"))


def _complete(completions: Completions) -> None:
    """Body of the thread. No fault of a callback may end it: others would wait for ever."""
    try:
        while True:
            try:
                if not completions.complete_next():
                    return
            except RunError:  # the interpreter ends, or this is a fork's child
                return
            except BaseException:
                logging.getLogger(__name__).exception("the callback of a request failed")
    finally:
        completions.fail_rest()
