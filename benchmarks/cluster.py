"""Decoding on several nodes of this machine: tokens a second, what Ray takes, killed nodes.

    python -m benchmarks.cluster                    all, writes results/cluster.json (minutes)
    python -m benchmarks.cluster --nodes 1,2 --output FILE
    python -m benchmarks.cluster --small            seconds (the tests run it)
    python -m benchmarks.cluster --show             writes build/results/performance.md

Nodes are processes of one Ray, each pinned to a core of its own (`tvm_hetero.cluster`). *Hops*:
what passing a tensor from node to node takes as we do it (messages through Ray's channels), by
Ray's calls and by its compiled graphs, beside a copy of as many bytes. *Nodes*: a model of the
shape of GPT-2 small with random weights as a pipeline of stages over the nodes, two groups of a
sequence each in flight a node; the share of time in communication is that of a step alone, which is
in no node's computation. *Kills*: a tiny model; in some of many generations a node is killed by
SIGKILL at a token drawn at random, and started again afterwards. All sequences must be those of
the undisturbed generation.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.clusters.decoders import FREE, description, placed, platform
from benchmarks.clusters.hops import Hop, measure_hops
from benchmarks.clusters.kills import Kill, study
from benchmarks.decoding.model import write_model
from benchmarks.documents import write_document
from benchmarks.execution.arguments import RESULTS
from benchmarks.results_page import write_pages
from tvm_hetero.cluster.decoder import ClusterDecoder
from tvm_hetero.cluster.driver import Cluster
from tvm_hetero.cluster.survey import measure_network
from tvm_hetero.platform.model import Platform

SIZES = [64, 24 * 2**10, 80 * 2**10, 2**20]
GENERATIONS, KILLS = 50, 20
_LENGTH, _TOKENS, _ALONE = 64, 24, 12
_AHEAD = 2


@dataclass(frozen=True)
class Row:
    """A decoder on so many nodes: tokens per second of all groups, seconds of a step alone, and
    the share of that in which no node computes; seconds of placing the model.
    """

    nodes: int
    groups: int
    tokens_s: float
    step_s: float
    communication: float
    busy: float
    placing_s: float


def main(arguments: Sequence[str] | None = None) -> tuple[list[Row], list[Hop], list[Kill]]:
    """Measure, print and write."""
    asked = _read(arguments)
    if asked.show:
        write_pages()
        return [], [], []
    with Cluster(description(max(asked.nodes)), silence=5.0) as cluster:
        found = measure(cluster, asked.nodes, asked.small)
    if asked.output is not None:
        write(asked.output, *found)
    return found


def measure(
    cluster: Cluster, counts: Sequence[int], small: bool
) -> tuple[list[Row], list[Hop], list[Kill]]:
    """Measure and print: decoders on the first nodes of a cluster, hops, and kills."""
    rows: list[Row] = []
    sizes, repeats = (SIZES[:2], 3) if small else (SIZES, 15)
    hops = measure_hops(cluster, sizes, repeats, peers=not small)
    print("\n".join(_hop_line(hop) for hop in hops))
    network = FREE if small else measure_network(cluster)
    with tempfile.TemporaryDirectory(prefix="tvm_hetero.cluster.") as folder:
        model = write_model("tiny" if small else "gpt2-small", Path(folder) / "model")
        less = write_model("tiny", Path(folder) / "less")
        for count in counts:
            rows.append(_decoder(cluster, model, count, network))
            print(_line(rows[-1]), flush=True)
        kills = _kills(cluster, less, max(counts), small)
    print(summary(kills))
    return rows, hops, kills


def summary(kills: Sequence[Kill]) -> str:
    """How many generations with a kill are whole, and what a kill took."""
    if not kills:
        return "kills: none"
    whole = sum(kill.equal for kill in kills)
    longer = statistics.median(kill.seconds - kill.undisturbed_s for kill in kills)
    return f"kills: {whole} of {len(kills)} equal to the undisturbed run, {longer:.2f} s longer"


def _decoder(cluster: Cluster, model: Path, count: int, network: tuple[float, float]) -> Row:
    groups = _AHEAD * count
    step = placed(
        model,
        platform(cluster.nodes[:count], network),
        tokens=1,
        batch=1,
        length=_LENGTH,
        groups=groups,
    )
    begin = time.perf_counter()
    with ClusterDecoder(cluster, step, groups=groups) as decoder:
        placing = time.perf_counter() - begin
        decoder.step(0, [1], [0]).result()
        _usage(cluster, decoder)
        alone = []
        for position in range(_ALONE):
            begin = time.perf_counter()
            decoder.step(0, [1], [position]).result()
            alone.append(time.perf_counter() - begin)
        computing = sum(_usage(cluster, decoder)) / _ALONE
        begin = time.perf_counter()
        made = decoder.generate([[1 + g] for g in range(groups)], _TOKENS, stop=())
        seconds = time.perf_counter() - begin
        busy = _usage(cluster, decoder)
    mean = statistics.mean(alone)
    return Row(
        nodes=len(decoder.nodes),
        groups=groups,
        tokens_s=sum(len(each.tokens) for each in made) / seconds,
        step_s=statistics.median(alone),
        communication=max(0.0, 1 - computing / mean),
        busy=statistics.mean(busy) / seconds,
        placing_s=placing,
    )


def _usage(cluster: Cluster, decoder: ClusterDecoder) -> list[float]:
    """Seconds in which each node computed since one asked last."""
    return [cluster.get(cluster.call(node, "usage")[0], node, 30.0) for node in decoder.nodes]


def _kills(cluster: Cluster, model: Path, count: int, small: bool) -> list[Kill]:
    where = platform(cluster.nodes[:count], FREE)
    step = placed(model, where, tokens=1, batch=2, length=48, groups=2)
    prefill = placed(model, where, tokens=4, batch=1, length=48, groups=2)
    prompts = [[1, 2, 3], [4, 5, 6, 7, 8, 9], [10], [11, 12, 13, 14, 15], [16, 17]]
    with ClusterDecoder(cluster, step, prefill, groups=2, patience=1.0) as decoder:
        generations, kills = (3, 1) if small else (GENERATIONS, KILLS)
        return study(cluster, decoder, prompts, 12, kills, generations)


def _read(arguments: Sequence[str] | None) -> Any:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--small", action="store_true", help="a tiny model, few runs, no file")
    parser.add_argument("--nodes", help="numbers with commas between")
    parser.add_argument("--output", type=Path, help="JSON file (everything: cluster.json)")
    parser.add_argument("--show", action="store_true", help="write build/results/*.md")
    asked = parser.parse_args(arguments)
    if asked.output is None and not (asked.small or asked.nodes):
        asked.output = RESULTS / "cluster.json"
    cores = len(os.sched_getaffinity(0))
    every = sorted({1, 2, *(n for n in (4, 8) if n <= cores)})
    asked.nodes = [int(n) for n in asked.nodes.split(",")] if asked.nodes else every
    return asked


def write(path: Path, rows: list[Row], hops: list[Hop], kills: list[Kill]) -> None:
    """Write what was measured."""
    write_document(
        path, "python -m benchmarks.cluster", map(asdict, rows),
        target=dict(Platform.detect(1).devices[0].target or {}),
        hops=[asdict(hop) for hop in hops], kills=[asdict(kill) for kill in kills],
        generations=GENERATIONS,
    )  # fmt: skip


def _hop_line(hop: Hop) -> str:
    others = {"call": hop.call_s, "compiled graph": hop.compiled_s, "copy": hop.copy_s}
    told = [f"{name} {1e6 * s:.2f} us" for name, s in others.items() if s is not None]
    return f"{hop.nbytes:>9} bytes a hop: message {1e6 * hop.message_s:.0f} us, {', '.join(told)}"


def _line(row: Row) -> str:
    return (
        f"{row.nodes} node(s), {row.groups} groups: {row.tokens_s:.1f} tokens/s, step alone "
        f"{1e3 * row.step_s:.2f} ms, {100 * row.communication:.1f} % of it communication; nodes "
        f"busy {100 * row.busy:.0f} %; placed in {row.placing_s:.1f} s"
    )


if __name__ == "__main__":
    main()
