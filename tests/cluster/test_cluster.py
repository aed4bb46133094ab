"""Models on the nodes of a Ray of this machine, and what becomes of them when nodes are lost.

Ray takes seconds to begin, so all tests have one; a test that kills nodes leaves it to the next one
to begin another.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import math
import os
import queue
import signal
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import ray
import tvm_ffi

from benchmarks import cluster as benchmark
from benchmarks.clusters import page
from benchmarks.decoding.model import write_model
from tests.cli.invoke import tvm_hetero
from tests.cluster.clusters import nodes, planned
from tests.cluster.node_faults import fails_once, finds_its_mail, loses_its_mail, never_ends
from tests.models import branchy, branchy_inputs, dense, lowered, random_schedule, unit_problem
from tests.small_decoders import tiny
from tests.waiting import eventually
from tutorials import two_node_cluster
from tvm_hetero.cluster.costs import ClusterCosts
from tvm_hetero.cluster.decoder import ClusterDecoder
from tvm_hetero.cluster.description import Description, NodeRow
from tvm_hetero.cluster.driver import Cluster
from tvm_hetero.cluster.executor import ClusterExecutor
from tvm_hetero.cluster.kernel_text import kernels_from_text, kernels_to_text
from tvm_hetero.cluster.node import Node
from tvm_hetero.cluster.replan import ScheduledModel
from tvm_hetero.cluster.transport.message import DRIVER, ECHO, Message
from tvm_hetero.compiler.build import build
from tvm_hetero.cost_models.protocol import MeasuringCostModel
from tvm_hetero.decoders.decoder import Decoder
from tvm_hetero.decoders.folder import DecoderFacts
from tvm_hetero.errors import InfeasibleError, NodeLost, RunError, UsageError
from tvm_hetero.executor.executor import Executor
from tvm_hetero.executor.tensors import as_array
from tvm_hetero.frontends.huggingface import from_huggingface
from tvm_hetero.passes.annotate_devices import annotate_devices
from tvm_hetero.passes.extract_tasks import extract_tasks
from tvm_hetero.platform import Platform
from tvm_hetero.serve.core.options import ServeOptions
from tvm_hetero.serve.server import ModelServer

PLATFORM = nodes(1, 1, 1)
LENGTH, CHUNK, BATCH = 24, 4, 2
PROMPTS = [[1, 2, 3], [4, 5, 6, 7, 8, 9], [10], [11, 12, 13, 14, 15]]
CORES = sorted(os.sched_getaffinity(0))
NODES = tuple(NodeRow(f"n{i}") for i in range(3))
MOST_LATE, _late = 3, itertools.count(1)
LATE = 2.0  # s; a run of a small model takes less, beside much other work too

_running: list[Cluster] = []


def end(cluster: Cluster) -> None:
    """Close it; what Ray wrote goes with it."""
    written = Path(ray._private.worker._global_node.get_session_dir_path())
    assert written.is_dir()
    cluster.close()
    assert not written.exists()


@pytest.fixture
def cluster() -> Cluster:
    """Three nodes, all of them there."""
    if _running and _running[0].lost:
        end(_running.pop())
    while not _running:
        try:
            _running.append(Cluster(Description("local", NODES), silence=3.0, beat=0.1))
        except RunError as error:
            # Ray gives itself 30 s, which is too little beside much other work.
            if "timed out during startup" not in str(error) or next(_late) > MOST_LATE:
                raise
    return _running[0]


def rays_processes() -> list[str]:
    """Names of what was begun below us for Ray, and has not ended."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if "ray" in " ".join(process.cmdline()):
                found.append(process.name())
    return found


@pytest.fixture(scope="module", autouse=True)
def ended() -> Iterator[None]:
    """What was begun is ended, and leaves no process."""
    yield
    while _running:
        end(_running.pop())
    assert eventually(lambda: not rays_processes()), rays_processes()


@pytest.fixture(scope="module")
def decoder(tmp_path_factory: pytest.TempPathFactory) -> tuple[ScheduledModel, ScheduledModel]:
    """The step of a tiny decoder for a batch, and its prefill, each placed at random."""
    folder = tiny("llama", tmp_path_factory.mktemp("decoder") / "llama")

    def placed(tokens: int, batch: int, seed: int) -> ScheduledModel:
        module = lowered(from_huggingface(folder, tokens=tokens, length=LENGTH), PLATFORM)
        problem = unit_problem(module, PLATFORM, batch)
        return ScheduledModel(module, problem, random_schedule(problem, seed))

    return placed(1, BATCH, 0), placed(CHUNK, 1, 1)


def told(cluster: Cluster, node: str, function: Callable[..., Any]) -> Any:
    """Have a node call a function with itself; what that gives."""
    return cluster.get(cluster.call(node, "__ray_call__", function)[0], node, 30.0)


def alone(step: ScheduledModel, prefill: ScheduledModel) -> list[list[int]]:
    """What the decoder generates on this machine without a cluster."""
    facts = DecoderFacts(
        family="llama", length=LENGTH, batch=BATCH, groups=1, chunk=CHUNK, vocabulary=96, eos=(),
        weights="float32", shards=1, source={},
    )  # fmt: skip
    built = [
        build(annotate_devices(p.module, p.problem, p.schedule), single=False)
        for p in (step, prefill)
    ]
    with Decoder(facts, *built) as local:
        return [each.tokens for each in local.generate(PROMPTS, 8)]


def test_a_model_on_nodes_is_the_model(cluster: Cluster):
    about = cluster.describe()
    assert [row["name"] for row in about] == list(cluster.nodes) == ["n0", "n1", "n2"]
    assert len({row["pid"] for row in about} | {os.getpid()}) == 4
    module, problem, schedule = planned(branchy(), PLATFORM, 5, batch=2)
    images = [np.stack(x) for x in zip(branchy_inputs(0), branchy_inputs(1), strict=True)]
    named = dict(zip(("in/x", "y"), images, strict=True))
    placed = annotate_devices(module, problem, schedule)
    with Executor(build(placed, single=False)) as whole:
        expected = [[out.numpy() for out in whole.run(named)]]
        other = {name: x[::-1].copy() for name, x in named.items()}
        expected.append([out.numpy() for out in whole.run(other)])
    with ClusterExecutor(cluster, placed) as executor:
        assert executor.outputs == ("probabilities", "features")
        got = [[out.numpy() for out in executor.run(named)]]
        got += [[o.numpy() for o in outs] for outs in executor.map([other, named, other])]
        with pytest.raises(RunError, match=r"expected float32 of shape"):
            executor.run({**named, "y": images[1].astype("float64")})
        merged = {"in/x": images[0].reshape(2, 4, 8, 8), "y": images[1].reshape(2, 8)}
        assert executor.run(merged)[0].shape == (2, 10)
    for outs, wanted in zip(got, [expected[0], expected[1], expected[0], expected[1]], strict=True):
        assert [out.tobytes() for out in outs] == [out.tobytes() for out in wanted]
        assert [out.shape for out in outs] == [out.shape for out in wanted]


def test_plans_for_other_nodes_and_decoders_as_functions_are_refused(cluster, decoder):
    module, problem, schedule = planned(branchy(), nodes(1, 1, 1, 1), 0)
    with pytest.raises(UsageError, match=r"on node 'n3', which is not in the cluster"):
        ClusterExecutor(cluster, ScheduledModel(module, problem, schedule))
    with pytest.raises(UsageError, match="use ClusterDecoder"):
        ClusterExecutor(cluster, decoder[0])
    with pytest.raises(UsageError, match="a prefill is of one sequence"):
        ClusterDecoder(cluster, decoder[0], decoder[0])


def test_a_decoder_on_the_cluster_is_served_by_the_same_front_end(
    cluster: Cluster, decoder, tmp_path: Path
):
    facts = DecoderFacts(
        family="llama", length=LENGTH, batch=BATCH, groups=1, chunk=CHUNK, vocabulary=96, eos=(),
        weights="float32", shards=1, source={},
    )  # fmt: skip

    def complete(url: str) -> list[list[int]]:
        asked = {"model": "words", "prompt": PROMPTS, "max_tokens": 8, "temperature": 0,
                 "return_token_ids": True}  # fmt: skip
        request = urllib.request.Request(
            f"{url}/v1/completions",
            json.dumps(asked).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as reply:
            return [choice["token_ids"] for choice in json.loads(reply.read())["choices"]]

    async def served(made: ClusterDecoder) -> list[list[int]]:
        server = ModelServer({"words": tmp_path}, ServeOptions(port=0), placed={"words": made})
        await server.start()
        try:
            return await asyncio.to_thread(complete, f"http://127.0.0.1:{server.port}")
        finally:
            await server.stop()

    with ClusterDecoder(cluster, *decoder, facts=facts) as made:
        assert asyncio.run(served(made)) == alone(*decoder)


def test_the_verbs(cluster: Cluster, tmp_path: Path):
    file = tmp_path / "nodes.yaml"
    file.write_text(
        "format: tvm-hetero/cluster/1\n"
        "nodes: [{name: n0}, {name: n1}]\n"
        "network: {bandwidth: 1GB/s, latency: 1us}\n"
        "silence: 60s\n"  # a machine that has more to do may stop a process for seconds
    )
    module, problem, schedule = planned(branchy(), nodes(1, 1), 3)
    placed = annotate_devices(module, problem, schedule)
    built = build(placed, single=False)
    built.save(tmp_path / "net.hetero")
    told = tvm_hetero(
        "run", tmp_path / "net.hetero", "--random", "--repeat", "3", "--json", "--output",
        tmp_path / "out.npz", "--cluster", file,
    )  # fmt: skip
    assert told.status == 0, told.err
    facts = json.loads(told.out)
    assert facts["lost"] == {}
    assert sorted(facts["nodes"]) == ["n0", "n1"] and facts["latency"]["count"] == 3
    with Executor(built) as executor, np.load(tmp_path / "out.npz") as outputs:
        expected = executor.run(executor.random_inputs(0))
        for name, out in zip(executor.outputs, expected, strict=True):
            assert outputs[name].tobytes() == out.numpy().tobytes()
    one = tmp_path / "one.yaml"
    one.write_text("format: tvm-hetero/cluster/1\nnodes: [{name: only}]\n")
    told = tvm_hetero("cluster", one, "--json", "-o", tmp_path / "platform.yaml")
    assert [row["name"] for row in json.loads(told.out)] == ["only"]
    assert Platform.load(tmp_path / "platform.yaml").names == ("only.cpu0",)
    for words, message in (
        (["run", tmp_path / "net.hetero", "--random", "--trace", tmp_path / "t"], "leave out"),
        (["run", tmp_path / "none", "--random"], "expected an artifact"),
        (["generate", tmp_path / "none", "--prompt-ids", "1"], "expected a decoder"),
    ):
        told = tvm_hetero(*words, "--cluster", file)
        assert told.status != 0 and message in told.err


def test_nodes_measure_their_own_devices(cluster: Cluster):
    place = nodes(1, 1)
    module = lowered(dense(24, 40), place)
    model = ClusterCosts(cluster)
    (kernel,) = extract_tasks(module).kernels
    costs = model.costs([kernel], place)
    assert list(costs) == [kernel.name] and set(costs[kernel.name]) == set(place.names)
    assert all(0 < cost.seconds(1) < 1 for cost in costs[kernel.name].values())
    assert isinstance(model, MeasuringCostModel) and not model.in_place
    assert {choice.device for choice in model.choices()} == set(place.names)
    (again,) = kernels_from_text(kernels_to_text([kernel]))
    assert tvm_ffi.structural_equal(again.func, kernel.func)
    assert (again.flops, again.constants) == (kernel.flops, kernel.constants)


def test_the_tutorial(cluster: Cluster, tmp_path: Path, capsys):
    model = write_model("tiny", tmp_path / "model")
    assert two_node_cluster.tell(cluster, tmp_path, model, seconds=0.3)
    told = capsys.readouterr().out
    assert "lost: {" in told and "the plan uses" in told and "True" in told
    (lost,) = cluster.lost
    cluster.revive(lost)


def test_the_benchmark(cluster: Cluster, tmp_path: Path, capsys):
    rows, hops, kills = benchmark.measure(cluster, [1, 2], small=True)
    assert [(row.nodes, row.groups) for row in rows] == [(1, 2), (2, 4)]
    for row in rows:
        assert row.tokens_s > 0 and 0 < row.busy <= 1 and 0 <= row.communication < 1
    assert all(hop.copy_s > 0 and math.isfinite(hop.message_s) for hop in hops)
    assert [kill.equal for kill in kills] == [True]
    assert len(cluster.nodes) == len(NODES)
    benchmark.write(tmp_path / "cluster.json", rows, hops, kills)
    document = json.loads((tmp_path / "cluster.json").read_text(encoding="utf-8"))
    text = page.SECTIONS["cluster"](document)
    assert "| 1 | 2 |" in text and text.startswith("## ")
    ((_, wanted, reached, met),) = page.GOALS["cluster"](document)
    assert (wanted, reached, met) == ("all", "1 of 1", "yes")


def test_a_part_that_fails_fails_its_request_and_no_other(cluster: Cluster):
    module, problem, schedule = planned(branchy(), PLATFORM, 5)
    named = dict(zip(("in/x", "y"), branchy_inputs(0), strict=True))
    with ClusterExecutor(cluster, ScheduledModel(module, problem, schedule)) as executor:
        expected = [out.tobytes() for out in map(as_array, executor.run(named))]
        for node in executor.nodes:
            told(cluster, node, fails_once)
            with pytest.raises(RunError, match="a node failed: ValueError: not today"):
                executor.run(named)
            assert [as_array(out).tobytes() for out in executor.run(named)] == expected
        # Nobody keeps what the failed requests brought.
        for node in executor.nodes:
            assert eventually(lambda node=node: told(cluster, node, Node.waiting) == 0)


def test_what_no_node_works_on_and_what_one_never_ends_are_late(cluster: Cluster):
    module, problem, schedule = planned(branchy(), PLATFORM, 5)
    named = dict(zip(("in/x", "y"), branchy_inputs(0), strict=True))
    placed = ScheduledModel(module, problem, schedule)
    with ClusterExecutor(cluster, placed, deadline=LATE, patience=0.5) as executor:
        expected = [out.tobytes() for out in map(as_array, executor.run(named))]
        first = executor.nodes[0]
        told(cluster, first, loses_its_mail)
        with pytest.raises(RunError, match=rf"no node computes what took longer than {LATE:g} s"):
            executor.run(named)
        told(cluster, first, finds_its_mail)
        told(cluster, first, never_ends)
        assert [as_array(out).tobytes() for out in executor.run(named)] == expected
        assert f"took longer than {LATE:g} s" in cluster.lost[first]
        assert first not in executor.nodes
    cluster.revive(first)


def test_channels_are_used_again(cluster: Cluster):
    """Ray gives back none; models one after the other take those that are there."""
    module, problem, schedule = planned(branchy(), PLATFORM, 5)
    placed = ScheduledModel(module, problem, schedule)
    with ClusterExecutor(cluster, placed) as executor:
        inputs = executor.random_inputs(0)
        expected = [as_array(out).tobytes() for out in executor.run(inputs)]
        laid, threads = dict(cluster.wiring._laid), threading.active_count()
        with ClusterExecutor(cluster, placed) as other:
            assert [as_array(out).tobytes() for out in other.run(inputs)] == expected
            assert (cluster.wiring._laid, threading.active_count()) == (laid, threads)
        with pytest.raises(UsageError, match="has another model by now; make a new executor"):
            executor.run(inputs)


def test_who_waits_computes_nothing(cluster: Cluster):
    """Ray's own waiting keeps a core busy for each channel that a process reads."""
    module, problem, schedule = planned(branchy(), PLATFORM, 5)
    named = dict(zip(("in/x", "y"), branchy_inputs(0), strict=True))
    with ClusterExecutor(cluster, ScheduledModel(module, problem, schedule)) as executor:
        executor.run(named)
        processes = [psutil.Process(), *(psutil.Process(cluster.pid(n)) for n in executor.nodes)]

        def busy() -> list[float]:
            return [sum(process.cpu_times()[:2]) for process in processes]

        before = busy()
        time.sleep(1.0)
        spent = [after - start for after, start in zip(busy(), before, strict=True)]
        executor.run(named)
    assert len(spent) > 2 and max(spent) < 0.5


def test_a_larger_channel_takes_the_place_of_a_small_one(cluster: Cluster):
    came: queue.SimpleQueue[Message] = queue.SimpleQueue()
    first, second, *_ = cluster.nodes
    cluster.wiring.listen(came.put)
    for count in (2**10, 2**17, 2**17, 2**20):
        array = np.arange(count, dtype=np.float64)
        ways = [(DRIVER, first), (first, second), (second, DRIVER)]
        cluster.wiring.require(dict.fromkeys(ways, array.nbytes + 2**14))
        echo = Message(ECHO, 0, 0, 7, 0, None, (0,), [array], route=(second, DRIVER))
        cluster.wiring.send(first, echo)
        assert came.get(timeout=30).arrays[0].tobytes() == array.tobytes()
        names = [t.name for t in threading.enumerate()]
        assert names.count(f"tvm_hetero from {second}") == 1
    cluster.wiring.unlisten(came.put)
    with pytest.raises(NodeLost, match="no channel leads to 'nobody'"):
        cluster.wiring.send("nobody", echo)


def test_a_closed_cluster_ends_what_is_in_flight_and_every_thread(cluster: Cluster, tmp_path: Path):
    before = sorted(thread.name for thread in threading.enumerate())
    ours = Cluster(Description("auto", NODES[:2]), silence=3.0, beat=0.1)
    module, problem, schedule = planned(branchy(), nodes(1, 1), 3)
    executor = ClusterExecutor(ours, ScheduledModel(module, problem, schedule))
    inputs = executor.random_inputs(0)
    assert executor.run(inputs)
    for node in executor.nodes:
        told(ours, node, partial(never_ends, begun=tmp_path / "begun"))
    with ThreadPoolExecutor(1) as one:
        waiting = one.submit(list, executor.map([inputs] * 3))
        assert eventually((tmp_path / "begun").exists)
        executor.close()
        with pytest.raises(RunError, match="the executor was closed"):
            waiting.result(timeout=30)
    ours.close()
    assert sorted(thread.name for thread in threading.enumerate()) == before


def test_generations_outlive_nodes_that_are_killed_or_stopped(cluster: Cluster, decoder, capsys):
    expected = alone(*decoder)
    with ClusterDecoder(cluster, *decoder, groups=2, patience=0.3) as made:
        assert (made.batch, made.length, made.chunk, made.vocabulary) == (BATCH, LENGTH, CHUNK, 96)
        assert [g.tokens for g in made.generate(PROMPTS, 8)] == expected
        for number, sign in enumerate((signal.SIGKILL, signal.SIGSTOP)):
            victim, seen = made.nodes[-1], []

            def told(sequence: int, token: int, victim=victim, sign=sign, seen=seen) -> None:
                seen.append((sequence, token))
                if len(seen) == 9:
                    os.kill(cluster.pid(victim), sign)

            found = made.generate(PROMPTS, 8, told=told)
            assert [g.tokens for g in found] == expected
            # Told once each, in order: nothing is repeated when a sequence begins again.
            assert [[t for s, t in seen if s == i] for i in range(len(PROMPTS))] == expected
            assert list(cluster.lost)[number] == victim
            assert victim not in made.nodes and len(made.nodes) <= 2 - number
        (last,) = cluster.nodes
        os.kill(cluster.pid(last), signal.SIGKILL)
        found = made.generate(PROMPTS, 8)
        assert {g.reason for g in found} == {"failed"}
        assert all("those left cannot run the model" in str(g.error) for g in found)
        assert all(isinstance(g.error, InfeasibleError) for g in found)
    with pytest.raises(RunError, match="the decoder is closed: make a new one"):
        made.generate(PROMPTS, 8)
    assert capsys.readouterr().out == ""  # where results go, and Ray would tell of each death
