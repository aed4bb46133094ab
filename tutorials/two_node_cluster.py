"""Decode on two nodes of a cluster, lose one of them in the middle, and go on.

Run it from the repository, after ``make setup`` (Ray is the extra ``tvm_hetero[ray]``):

    .venv/bin/python tutorials/two_node_cluster.py [HUGGING_FACE_FOLDER]

The nodes are processes of this machine, each with a core of its own; with ``address: auto`` and
hosts in the cluster file the same code runs on several machines. Without an argument a tiny GPT-2
with random weights is made up.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import yaml

from benchmarks.decoding.model import write_model
from tvm_hetero.cluster.decoder import ClusterDecoder
from tvm_hetero.cluster.driver import Cluster
from tvm_hetero.cluster.survey import survey
from tvm_hetero.decoders.build import DecoderOptions, build_decoder
from tvm_hetero.platform import Fabric

PROMPTS = [[1, 2, 3], [4, 5, 6, 7, 8], [9]]
TOKENS = 12
# A roofline of a core, so that this tutorial need not measure kernels; `cost_model="profiled"`
# (the default) measures them.
CORE = {"peak_flops": 1e11, "bandwidth": 2e10, "launch": 1e-6}


def main(model: Path | None = None, folder: Path | None = None) -> bool:
    """Tell the story; whether nothing was lost with the node."""
    place = Path(tempfile.mkdtemp(prefix="two_nodes.")) if folder is None else folder
    model = model or write_model("tiny", place / "model")

    # ---------------------------------------------------------------- 1. a cluster
    # A file says which nodes there are. Each becomes a process with devices of its own.
    cores = sorted(os.sched_getaffinity(0))
    nodes = [{"name": "left", "cores": cores[:1]}, {"name": "right", "cores": cores[-1:]}]
    if len(cores) < 2:
        nodes = [{"name": "left"}, {"name": "right"}]
    file = place / "nodes.yaml"
    file.write_text(yaml.safe_dump({"format": "tvm-hetero/cluster/1", "nodes": nodes}))
    with Cluster(file, silence=3.0) as cluster:
        return tell(cluster, place, model)


def tell(cluster: Cluster, place: Path, model: Path, seconds: float = 2.0) -> bool:
    """The story from when there is a cluster; `seconds` are what a solver may take."""
    for row in cluster.describe():
        print(f"1. node {row['name']}: process {row['pid']}, cores {row['cores']}")

    # ------------------------------------------------------------ 2. its platform
    # `survey` asks the nodes for their devices and measures what a tensor from one to the
    # other takes (`tvm-hetero cluster FILE -o platform.yaml` writes the same).
    platform = survey(cluster)
    (network,) = platform.fabrics
    print(f"2. devices {', '.join(platform.names)}; {1e6 * network.latency:.0f} us a hop")
    # A model as small as this one would stay on one node. Let the network be free, so that
    # the plan uses both; leave this out for a model that is worth it.
    devices = tuple(replace(device, **CORE) for device in platform.devices)
    free = (Fabric(None, 1e15, 0.0),)
    platform = replace(platform, devices=devices, fabrics=free)

    # ------------------------------------------------------------ 3. a decoder for it
    # Two groups of sequences, so that one node works on one while the other has the other.
    options = DecoderOptions(batch=2, length=32, chunk=4, groups=2)
    built = place / "decoder.hetero"
    build_decoder(
        model, platform, built, options, objective="throughput",
        cost_model="analytical", time_limit=seconds, measure=False,
    )  # fmt: skip

    # ------------------------------------------------------------ 4. tokens
    with ClusterDecoder.load(cluster, built, patience=seconds) as decoder:
        print(f"3. the plan uses {', '.join(decoder.nodes)}")
        before = [each.tokens for each in decoder.generate(PROMPTS, TOKENS, stop=())]
        for prompt, tokens in zip(PROMPTS, before, strict=True):
            print(f"4. {prompt} -> {tokens}")

        # -------------------------------------------------------- 5. a node dies
        # In the middle of a generation a process is killed. The caches that it had are gone:
        # the plan is made again for what is left, and every sequence goes on from its tokens.
        victim, told = decoder.nodes[-1], []

        def kill(sequence: int, token: int) -> None:
            told.append((sequence, token))
            if len(told) == TOKENS:
                os.kill(cluster.pid(victim), signal.SIGKILL)

        after = [each.tokens for each in decoder.generate(PROMPTS, TOKENS, stop=(), told=kill)]
        print(f"5. killed {victim}; lost: {cluster.lost}")
        print(f"6. the same tokens on {', '.join(decoder.nodes)}: {after == before}")
    return after == before


if __name__ == "__main__":
    main(*(Path(argument) for argument in sys.argv[1:2]))
