"""Nodes on several machines of a Ray that somebody else runs.

Two raylets with addresses of their own stand for machines: Ray keeps a store for each, and carries
what passes between them over sockets.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import ray
from ray.cluster_utils import Cluster as Raylets

from tests.cluster.clusters import nodes, planned
from tests.models import branchy, branchy_inputs
from tvm_hetero.cluster.description import read_description
from tvm_hetero.cluster.driver import Cluster
from tvm_hetero.cluster.executor import ClusterExecutor
from tvm_hetero.cluster.replan import ScheduledModel
from tvm_hetero.cluster.survey import hop_seconds
from tvm_hetero.compiler.build import build
from tvm_hetero.executor.executor import Executor
from tvm_hetero.executor.tensors import as_array
from tvm_hetero.passes.annotate_devices import annotate_devices

# The first machine has the address that Ray finds for it.
THERE = "127.0.0.2"
STORE = 100 * 2**20


@pytest.fixture
def raylets() -> Iterator[Raylets]:
    """A Ray of two machines."""
    found = Raylets()
    found.add_node(num_cpus=1, object_store_memory=STORE)
    found.add_node(num_cpus=1, object_store_memory=STORE, node_ip_address=THERE)
    written = found.head_node.get_session_dir_path()
    yield found
    ray.shutdown()
    found.shutdown()
    shutil.rmtree(written, ignore_errors=True)


def test_a_model_goes_over_two_machines_and_outlives_one(raylets: Raylets, tmp_path: Path) -> None:
    here, _ = raylets.address.split(":")
    file = tmp_path / "nodes.yaml"
    file.write_text(
        f"format: tvm-hetero/cluster/1\naddress: {raylets.address}\n"
        f"nodes: [{{name: n0, host: {here}}}, {{name: n1, host: {THERE}}}]\n"
    )
    module, problem, schedule = planned(branchy(), nodes(1, 1), 3)
    named = dict(zip(("in/x", "y"), branchy_inputs(0), strict=True))
    placed = annotate_devices(module, problem, schedule)
    with Executor(build(placed, single=False)) as whole:
        expected = [as_array(out).tobytes() for out in whole.run(named)]
    with Cluster(read_description(file), silence=3.0, beat=0.1) as cluster:
        machines = {row["NodeID"] for row in ray.nodes() if row["Alive"]}
        assert len(machines) == 2
        # A difference of two times: on a busy machine it may be below 0.
        assert all(map(math.isfinite, hop_seconds(cluster, (64, 2**20), 1)))
        with ClusterExecutor(cluster, ScheduledModel(module, problem, schedule)) as executor:
            assert executor.nodes == ("n0", "n1")
            for _ in range(3):
                assert [as_array(out).tobytes() for out in executor.run(named)] == expected
            raylets.remove_node(raylets.worker_nodes.copy().pop(), allow_graceful=False)
            outputs = [as_array(out) for out in executor.run(named)]
            assert list(cluster.lost) == ["n1"] and executor.nodes == ("n0",)
        for output, before in zip(outputs, expected, strict=True):
            wanted = np.frombuffer(before, output.dtype).reshape(output.shape)
            np.testing.assert_allclose(output, wanted, rtol=1e-5, atol=1e-6)
