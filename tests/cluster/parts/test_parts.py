"""Cut by node, whatever a model looks like, its parts make what the whole makes."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cluster.clusters import nodes, planned, run_parts, started
from tests.draws import draws
from tests.random_models import make_module, programs, random_inputs
from tests.small_decoders import tiny
from tvm_hetero.check import check_schedule
from tvm_hetero.cluster.parts.parts import cut_by_node
from tvm_hetero.compiler.build import Network, build
from tvm_hetero.errors import ModelError
from tvm_hetero.executor.executor import Executor
from tvm_hetero.frontends.huggingface import from_huggingface
from tvm_hetero.passes.annotate_devices import annotate_devices

TWO = nodes(1, 2)
THREE = nodes(1, 1, 1)
APART = nodes(2, 2, private=True)


@settings(max_examples=draws(8))
@given(program=programs(), seed=st.integers(0, 10**6))
def test_parts_make_what_the_whole_makes(program, seed):
    platform, batch = (TWO, THREE, APART)[seed % 3], 1 + seed % 4 % 3
    try:
        module, problem, schedule = planned(make_module(program), platform, seed, batch)
    except ModelError as error:
        assert "computes nothing" in str(error)
        return
    each = [random_inputs(program, seed + e) for e in range(batch)]
    stacked = [np.stack(x) if batch > 1 else x[0] for x in zip(*each, strict=True)]
    with Executor(build(annotate_devices(module, problem, schedule), single=False)) as whole:
        named = dict(zip((info.name for info in whole.inputs), stacked, strict=True))
        if batch > 1:
            expected = whole.run([{n: x[e] for n, x in named.items()} for e in range(batch)])
        else:
            expected = whole.run(named)
        expected = [out.numpy() for out in expected]
    parts = cut_by_node(module, problem, schedule)
    for lane in parts.lanes:
        for part in lane.parts:
            assert check_schedule(part.problem, part.schedule) == []
    with tempfile.TemporaryDirectory() as folder:
        found = started(parts, Path(folder))
        outputs = run_parts(parts, found, stacked)
        for node in found.values():
            node.clear()
    assert [out.shape for out in outputs] == [out.shape for out in expected]
    assert [out.tobytes() for out in outputs] == [out.tobytes() for out in expected]


def test_parts_of_a_decoder_keep_its_caches(tmp_path):
    folder, batch = tiny("gpt2", tmp_path / "gpt2"), 2
    module, problem, schedule = planned(
        from_huggingface(folder, length=12), THREE, 4, batch, sizes=False
    )
    parts = cut_by_node(module, problem, schedule)
    kept = [state for lane in parts.lanes for part in lane.parts for state in part.states]
    states = sorted(str(name) for name in module["main"].attrs["hetero_states"])
    assert sorted(kept) == sorted(states * len(parts.lanes))
    assert len(parts.nodes) == 3 and len(parts.lanes) == 2
    network = Network(module, problem)
    found = started(parts, tmp_path / "parts", 1, network)
    rng = np.random.default_rng(0)
    placed = annotate_devices(module, problem, schedule)
    with Executor(build(placed, single=False, network=network)) as whole:
        state = whole.new_state()
        for position in range(4):
            token = rng.integers(0, 96, (batch, 1)).astype(np.int32)
            rows = np.full((batch, 1), position, np.int32)
            (expected,) = whole.run(token=token, position=rows, state=state)
            (got,) = run_parts(parts, found, [token, rows])
            assert got.tobytes() == expected.numpy().tobytes()
    for node in found.values():
        node.clear()
