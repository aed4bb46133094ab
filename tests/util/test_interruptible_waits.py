"""Waits that hear a signal which woke nobody."""

from __future__ import annotations

import _thread
import signal
import threading

from tests.waiting import LIMIT, eventually, is_asleep
from tvm_hetero.util.interruptible_waits import await_event


def test_a_signal_that_wakes_nobody_is_heard() -> None:
    """As one that came just before the main thread fell asleep: it is noted, and nothing more."""
    event, over = threading.Event(), threading.Event()
    heard = []

    def handle(*_: object) -> None:
        heard.append("signal")
        event.set()

    def send(waiting: threading.Thread) -> None:
        assert eventually(lambda: is_asleep(waiting))
        _thread.interrupt_main(signal.SIGUSR1)
        over.wait(LIMIT)
        event.set()  # so that a wait that hears nothing ends as well

    sender = threading.Thread(target=send, args=[threading.main_thread()], daemon=True)
    kept = signal.signal(signal.SIGUSR1, handle)
    try:
        sender.start()
        await_event(event)
        assert heard == ["signal"]
    finally:
        over.set()
        sender.join()
        signal.signal(signal.SIGUSR1, kept)


def test_an_event_that_is_set_is_not_waited_for() -> None:
    event = threading.Event()
    threading.Timer(0.01, event.set).start()
    await_event(event)
    assert event.is_set()
