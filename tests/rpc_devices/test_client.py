"""Boards that are reached by RPC: measured, used, cut off, silent, back again, and killed.

One server is shared by all. It has one client at a time: first come tests that let go of it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm

import tvm_hetero
from tests.cost_models.kernel_samples import elementwise
from tests.models import NATIVE, PLAIN, branchy_inputs, placed
from tests.rpc_devices.servers import KEY, Server, Wire, tracked
from tests.waiting import eventually
from tvm_hetero.artifact.executable import Executable
from tvm_hetero.compiler.build import build
from tvm_hetero.compiler.kernel_cache import kernel_library
from tvm_hetero.compiler.reference_vm import ReferenceVM
from tvm_hetero.cost_models.kernels_alone.sampling import SamplingPolicy
from tvm_hetero.cost_models.links.measure import measure_links
from tvm_hetero.cost_models.links.rpc_devices import measure_board
from tvm_hetero.cost_models.profiled import ProfiledCosts
from tvm_hetero.cost_models.store import CostStore
from tvm_hetero.cost_models.store.identity import kernel_key, place_of
from tvm_hetero.devices.target import device_target
from tvm_hetero.errors import ProfileError, RunError
from tvm_hetero.executor.executor import Executor
from tvm_hetero.kernels import schedule_kernel
from tvm_hetero.platform import Device, Link, Platform
from tvm_hetero.platform.rpc_endpoint import Remote
from tvm_hetero.rpc_devices.client import Kept, RpcProgram, board_of, laid_out
from tvm_hetero.rpc_devices.endpoint_text import board_question
from tvm_hetero.rpc_devices.session import BoardSession, last_words

QUICK = SamplingPolicy(budget=0.001, rounds=1)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    started = Server(tmp_path_factory.mktemp("board") / "server.log")
    try:
        yield started
    finally:
        started.kill()


@pytest.fixture(scope="module")
def wire(server: Server) -> Iterator[Wire]:
    """What leads to the server; the executor below goes through it."""
    made = Wire(server)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> CostStore:
    return CostStore(tmp_path_factory.mktemp("store") / "costs.sqlite")


def board(port: int, timeout: float = 60.0) -> Device:
    remote = Remote(server=f"127.0.0.1:{port}", key=KEY, timeout=timeout)
    return Device("pi", target=PLAIN, rpc=remote)


def platform(pi: Device, links: bool = True) -> Platform:
    core = min(os.sched_getaffinity(0))
    both = (Link("big", "pi", 1e8, 1e-4), Link("pi", "big", 1e8, 1e-4)) if links else ()
    return Platform((Device("big", target=NATIVE, cores=(core,)), pi), links=both)


@pytest.fixture(scope="module")
def executable(wire: Wire) -> Executable:
    return build(placed(1, platform(board(wire.port, timeout=5.0))))


@pytest.fixture(scope="module")
def reference(wire: Wire) -> ReferenceVM:
    return ReferenceVM(placed(1, platform(board(wire.port))))


@pytest.fixture(scope="module")
def expected(reference: ReferenceVM) -> list[np.ndarray[Any, Any]]:
    return reference.run(*branchy_inputs())


@pytest.fixture(scope="module")
def executor(server: Server, executable: Executable) -> Iterator[Executor]:
    """Holds the server, which has one client at a time, from its first use on."""
    server.wait()
    with Executor(executable, "partition") as made:
        yield made


def run(executor: Executor) -> list[Any]:
    return executor.run(named_inputs())


def named_inputs(seed: int = 0) -> dict[str, np.ndarray[Any, Any]]:
    return dict(zip(("in/x", "y"), branchy_inputs(seed), strict=True))


def same(found: list[Any], expected: list[Any]) -> bool:
    return all(
        np.array_equal(one.numpy(), other) for one, other in zip(found, expected, strict=True)
    )


def test_links_of_a_board_are_measured_once(server: Server, wire: Wire, store: CostStore) -> None:
    server.wait()
    pi = board(wire.port)
    measured = measure_links(platform(pi, links=False), store)
    figures = measure_board(pi, store)  # of the store: the same
    there, back = measured.link("big", "pi"), measured.link("pi", "big")
    assert there is not None and back is not None
    assert (there.latency, there.bandwidth) == figures.there
    assert (back.latency, back.bandwidth) == figures.back
    assert figures.call > 0
    assert measure_links(platform(pi, links=False), store) == measured


def test_what_the_server_refuses_is_said(server: Server, wire: Wire) -> None:
    server.wait()
    pi = board(wire.port)
    wrong = replace(pi, rpc=replace(pi.rpc, key="other"))
    with pytest.raises(RuntimeError) as caught:
        BoardSession(board_question(wrong))
    assert "cannot find server that matches key=client:other" in last_words(caught.value)
    gpu = replace(pi, target={"kind": "cuda", "arch": "sm_80"})
    with pytest.raises(RuntimeError, match="the board has no cuda device"):
        BoardSession(board_question(gpu))
    # What this TVM says first is the version of its protocol; the server knows no other.
    wire.altered = lambda data: data.replace(b"0.8.0", b"0.7.0")
    try:
        with pytest.raises(RuntimeError) as caught:
            BoardSession(board_question(pi))
    finally:
        wire.altered = lambda data: data
    assert "version" in last_words(caught.value)


def test_a_tracker_lends_a_board(tmp_path: Path) -> None:
    with tracked(tmp_path) as address:
        remote = Remote(tracker=address, key=KEY)
        session = BoardSession(board_question(Device("pi", target=PLAIN, rpc=remote)))
        tensor = tvm.runtime.tensor(np.arange(5.0), session.device)
        assert tensor.numpy().tolist() == [0, 1, 2, 3, 4]


def test_profiling_goes_on_where_the_connection_was_lost(
    server: Server, wire: Wire, store: CostStore
) -> None:
    server.wait()
    kernels = [elementwise(f"k{size}", size) for size in (64, 128, 1 << 16)]
    where = platform(board(wire.port))
    where = replace(where, devices=where.devices[1:], links=())
    first = ProfiledCosts(store, QUICK, in_place=False)

    def cut(step: str, done: int, _total: int) -> None:
        if (step, done) == ("measure on pi", 2):
            wire.cut()

    with pytest.raises(ProfileError, match=r"'pi' \(RPC server .*was lost.*try again"):
        first.costs(kernels, where, cut)
    assert first.runs == 2
    wire.mend()
    second = ProfiledCosts(store, QUICK, in_place=False)
    costs = second.costs(kernels, where)
    assert second.runs == 1
    call = measure_board(where.devices[0], store).call
    assert all(row["pi"].seconds(1) > call for row in costs.values())
    third = ProfiledCosts(store, QUICK, in_place=False)
    assert third.costs(kernels, where) == costs
    assert third.runs == 0
    # What was measured there is not what a device of this machine takes, whatever its name.
    here = Device("pi", target=PLAIN, cores=(min(os.sched_getaffinity(0)),))
    place = place_of(Platform((here,)), here)
    key = kernel_key(schedule_kernel(kernels[0].func, device_target(here)))
    assert store.timing(key, place_of(where, where.devices[0])) is not None
    assert store.timing(key, place) is None


def test_runs_here_and_there_and_again_after_a_cut(
    wire: Wire, executor: Executor, reference: ReferenceVM, expected: list[Any]
) -> None:
    assert same(run(executor), expected)
    # Some step there reads what another one has made there: the board keeps it.
    steps = [step for step in executor.plan.steps if step.remote]
    assert {s for step in steps for s in step.ins} & {s for step in steps for s in step.outs}
    # Requests in flight at once do not get each other's tensors.
    pending = [executor.submit(named_inputs(seed)) for seed in range(12)]
    for seed, each in enumerate(pending):
        assert same(each.result(60), reference.run(*branchy_inputs(seed)))
    assert {step.device for step in executor.trace()} == {"big", "pi"}
    wire.cut()
    with pytest.raises(RunError, match=r"'pi/seg.*was lost: the connection was closed"):
        run(executor)
    with pytest.raises(RunError, match=r"'pi'.*cannot be reached"):
        run(executor)
    wire.mend()
    assert same(run(executor), expected)


def test_what_a_board_has_kept_does_not_go_there_again_unless_it_was_lost(
    wire: Wire, executor: Executor, own_cache: Path
) -> None:
    pi = executor.problem.platform.device("pi")
    library = kernel_library({"twice": elementwise("twice", 16).func}, pi)
    tensor = {"shape": [16], "dtype": "float32", "bytes": 64}
    call = {"kernel": "twice", "args": [{"in": 0, **tensor}] * 2 + [{"out": 0, **tensor}]}
    step = {"ins": laid_out([64]), "outs": laid_out([64], 64), "calls": [call]}
    board = board_of(pi)
    number = board.add(RpcProgram(library, {}, [step, step]))

    def twice(step: int, values: Any, had: Kept | None, keep: bool) -> tuple[list[float], int]:
        out = np.zeros(16, np.float32)
        ins = [np.full(16, values, np.float32).view(np.uint8)]
        place = (7, 0) if keep else None
        connection = board.run(number, step, ins, [out.view(np.uint8)], [had], [place])
        return sorted(set(out.tolist())), connection

    values, connection = twice(0, 1, None, True)
    assert values == [2]
    kept = Kept((7, 0), connection)
    assert twice(1, 5, kept, False) == ([4], connection)
    assert twice(1, 5, None, False) == ([10], connection)
    wire.cut()
    with pytest.raises(RunError, match="was lost"):
        twice(1, 5, kept, False)
    wire.mend()
    assert twice(1, 5, kept, False) == ([10], connection + 1)
    board.remove(number)


def test_a_board_that_falls_silent_is_given_up(
    wire: Wire, executor: Executor, expected: list[Any]
) -> None:
    assert same(run(executor), expected)
    wire.swallow()
    with pytest.raises(RunError, match="was lost: it did not end within 5 s"):
        run(executor)
    wire.mend()
    assert same(run(executor), expected)


def test_a_board_that_is_killed_fails_what_needs_it_and_hangs_nothing(
    server: Server, executor: Executor, executable: Executable, expected: list[Any], tmp_path: Path
) -> None:
    executable.save(tmp_path / "net.hetero")
    with tvm_hetero.load(tmp_path / "net.hetero", "partition") as loaded:
        ends: list[bool] = []
        failures: list[str] = []

        def requests(own: Executor) -> None:
            while not failures:
                try:
                    ends.append(same(run(own), expected))
                except RunError as error:
                    failures.append(str(error))

        # Two executors, one board.
        threads = [threading.Thread(target=requests, args=(each,)) for each in (executor, loaded)]
        for thread in threads:
            thread.start()
        assert eventually(lambda: len(ends) >= 4 or failures)
        assert not failures
        server.kill()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()
        assert all(ends)
        assert failures
        assert all("device 'pi'" in text for text in failures)
