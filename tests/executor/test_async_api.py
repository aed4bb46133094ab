"""The asynchronous flavour: in order, bounded, cancelled with its task, and no loop held up."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from typing import Any

import pytest

from tests.executor.gated import WAIT, Gate, Gated, result, vector
from tests.executor.threads import NotingPool
from tests.models import branchy_inputs
from tvm_hetero.artifact.executable import Executable
from tvm_hetero.errors import DeadlineError, RunError
from tvm_hetero.executor.executor import Executor


async def begin_many(executor: Executor, gate: Gate) -> list[asyncio.Future[Any]]:
    """Three times as many requests as there is room for; the first has reached the gate."""
    tasks: list[asyncio.Future[Any]] = [
        asyncio.ensure_future(executor.run_async(x=vector(i))) for i in range(3 * executor.depth)
    ]
    await until(lambda: gate.seen)
    return tasks


def run(main: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine to its end, which must come."""

    async def bounded() -> Any:
        async with asyncio.timeout(WAIT):
            return await main

    return asyncio.run(bounded())


async def until(condition: Any) -> None:
    """Let the loop go on until a condition comes true."""
    while not condition():
        await asyncio.sleep(0.001)


def test_many_at_once_begin_in_order_and_none_is_lost(held: Gated) -> None:
    executor, gate = held
    gate.open.set()

    async def main() -> list[Any]:
        return await asyncio.gather(*(executor.run_async(x=vector(i)) for i in range(100)))

    assert [result(outputs) for outputs in run(main())] == [2 * i + 1 for i in range(100)]
    assert gate.seen == list(range(100))


def test_it_gives_what_run_gives(executable: Executable) -> None:
    inputs = dict(zip(("in/x", "y"), branchy_inputs(), strict=True))
    with Executor(executable) as executor:
        expected = [out.numpy().tobytes() for out in executor.run(inputs)]
        outputs = run(executor.run_async({"in/x": inputs["in/x"]}, y=inputs["y"]))
        assert [out.numpy().tobytes() for out in outputs] == expected


def test_the_loop_goes_on_while_the_pipeline_is_full(held: Gated) -> None:
    executor, gate = held

    async def main() -> list[Any]:
        tasks = await begin_many(executor, gate)
        for _ in range(20):  # as often as the loop likes
            await asyncio.sleep(0.001)
        assert not any(task.done() for task in tasks)
        gate.open.set()
        return await asyncio.gather(*tasks)

    assert [result(outputs) for outputs in run(main())] == [
        2 * i + 1 for i in range(3 * executor.depth)
    ]


def test_other_threads_may_fill_the_pipeline(held: Gated) -> None:
    executor, gate = held
    others = [executor.submit(x=vector(i)) for i in range(executor.depth)]
    threads = NotingPool()

    async def main() -> list[Any]:
        asyncio.get_running_loop().set_default_executor(threads)
        tasks = [asyncio.ensure_future(executor.run_async(x=vector(10 + i))) for i in range(4)]
        tasks[1].cancel()
        await until(lambda: len(threads.begun) == min(3, executor.depth))
        tasks[2].cancel()  # its thread waits for room, and looks up
        await until(lambda: any(each.done() for each in threads.begun))
        assert not tasks[0].done()
        gate.open.set()
        return await asyncio.gather(*tasks, return_exceptions=True)

    first, second, third, fourth = run(main())
    assert [result(first), result(fourth)] == [21, 27]
    assert isinstance(second, asyncio.CancelledError)
    assert isinstance(third, asyncio.CancelledError)
    assert [result(each.result(WAIT)) for each in others] == [
        2 * i + 1 for i in range(executor.depth)
    ]
    assert not {11.0, 12.0}.intersection(gate.seen)  # neither began when there was room
    assert result(executor.run(x=vector(1))) == 3


def test_cancelling_the_task_cancels_the_request(held: Gated) -> None:
    executor, gate = held

    async def main() -> None:
        tasks = [
            asyncio.ensure_future(executor.run_async(x=vector(i))) for i in range(executor.depth)
        ]
        await until(lambda: gate.seen)
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(end, asyncio.CancelledError) for end in ends)
        gate.open.set()
        # All places are free again.
        outputs = await asyncio.gather(
            *(executor.run_async(x=vector(i)) for i in range(2 * executor.depth))
        )
        assert [result(each) for each in outputs] == [2 * i + 1 for i in range(2 * executor.depth)]

    run(main())


def test_deadlines(held: Gated) -> None:
    executor, gate = held

    async def main() -> None:
        many = [executor.run_async(x=vector(i), deadline=0.03) for i in range(2 * executor.depth)]
        ends = await asyncio.gather(*many, return_exceptions=True)
        assert all(isinstance(end, DeadlineError) for end in ends)
        gate.open.set()
        assert result(await executor.run_async(x=vector(4), deadline=WAIT)) == 9

    run(main())


def test_a_failure_and_a_wrong_input_are_exceptions_of_the_await(held: Gated) -> None:
    executor, gate = held
    gate.poison = 2.0
    gate.open.set()

    async def main() -> None:
        with pytest.raises(RunError, match="poisoned"):
            await executor.run_async(x=vector(2))
        with pytest.raises(RunError, match="'x' is missing"):
            await executor.run_async()
        assert result(await executor.run_async(x=vector(3))) == 7

    run(main())


def test_a_stream_in_order_from_either_kind_of_iterable(free: Executor) -> None:
    async def inputs() -> AsyncIterator[dict[str, Any]]:
        for i in range(50):
            await asyncio.sleep(0)
            yield {"x": vector(i)}

    async def main() -> None:
        expected = [2 * i + 1 for i in range(50)]
        assert [result(each) async for each in free.amap(inputs())] == expected
        plain = ({"x": vector(i)} for i in range(50))
        assert [result(each) async for each in free.amap(plain)] == expected

    run(main())


def test_a_stream_takes_inputs_only_as_it_has_room(free: Executor) -> None:
    pulled = taken = 0

    def inputs() -> Iterator[dict[str, Any]]:
        nonlocal pulled
        for i in range(40):
            assert pulled - taken <= free.depth
            pulled += 1
            yield {"x": vector(i)}

    async def main() -> None:
        nonlocal taken
        async for _ in free.amap(inputs()):
            taken += 1

    run(main())
    assert pulled == taken == 40


def test_a_stream_hands_out_what_stands_before_a_failure(held: Gated) -> None:
    executor, gate = held
    gate.poison = 3.0
    gate.open.set()

    async def main() -> None:
        ends: list[float] = []
        with pytest.raises(RunError, match="poisoned"):
            async for outputs in executor.amap({"x": vector(i)} for i in range(10)):
                ends += [result(outputs)]
        assert ends == [1, 3, 5]

        def broken() -> Iterator[dict[str, Any]]:
            yield {"x": vector(1)}
            raise KeyError("no more")

        with pytest.raises(KeyError):
            async for outputs in executor.amap(broken()):
                ends += [result(outputs)]
        assert ends == [1, 3, 5, 3]

    run(main())


def test_a_stream_that_is_left_cancels_the_rest(free: Executor) -> None:
    async def main() -> None:
        stream = free.amap({"x": vector(i)} for i in range(1000))
        assert result(await anext(stream)) == 1
        await stream.aclose()
        assert result(await free.run_async(x=vector(6))) == 13

    run(main())


def test_several_loops_share_an_executor(free: Executor) -> None:
    ends: list[list[float]] = []

    async def main() -> list[Any]:
        return await asyncio.gather(*(free.run_async(x=vector(i)) for i in range(30)))

    def loop() -> None:
        ends.append([result(outputs) for outputs in run(main())])

    threads = [threading.Thread(target=loop) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT)
    assert ends == [[2 * i + 1 for i in range(30)]] * 3


def test_closing_ends_those_that_wait_for_their_turn(held: Gated) -> None:
    executor, gate = held

    async def main() -> list[Any]:
        tasks = await begin_many(executor, gate)
        executor.close()
        return await asyncio.gather(*tasks, return_exceptions=True)

    ends = run(main())
    assert len(ends) == 3 * executor.depth
    assert all(isinstance(end, RunError) for end in ends)
