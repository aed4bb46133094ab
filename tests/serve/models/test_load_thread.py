"""What a thread does for the loop, and what becomes of it when the loop does not wait."""

from __future__ import annotations

import asyncio
import threading

import pytest

from tests.waiting import LIMIT
from tvm_hetero.errors import RunError
from tvm_hetero.serve.models.load_thread import in_thread


def test_results_and_errors_come_back():
    async def main() -> None:
        assert await in_thread(lambda: 7) == 7

        def fail() -> None:
            raise RunError("no")

        with pytest.raises(RunError, match="no"):
            await in_thread(fail)

    asyncio.run(main())


@pytest.mark.filterwarnings("error")
def test_who_is_cancelled_leaves_the_work_to_its_end_and_nothing_is_logged():
    gate, over, complaints = threading.Event(), threading.Event(), []

    def work() -> None:
        gate.wait(LIMIT)
        over.set()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: complaints.append(context))
        waiting = asyncio.ensure_future(in_thread(work))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        gate.set()
        await asyncio.to_thread(over.wait, LIMIT)
        await in_thread(lambda: None)  # whatever the first one posted has been looked at

    asyncio.run(main())
    assert over.is_set() and not complaints


def test_work_that_outlives_its_loop_ends_in_silence(monkeypatch):
    gate, complaints = threading.Event(), []
    monkeypatch.setattr(threading, "excepthook", complaints.append)

    async def main() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(in_thread(lambda: gate.wait(LIMIT)), 0.01)

    asyncio.run(main())
    (thread,) = [t for t in threading.enumerate() if t.name == "tvm_hetero loading"]
    gate.set()
    thread.join(LIMIT)
    assert not thread.is_alive() and not complaints
