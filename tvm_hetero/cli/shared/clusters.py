"""Clusters as verbs use them: nodes that are started, costs from them, models placed on them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tvm_hetero.cli.shared.console import Steps
from tvm_hetero.cli.shared.platforms import prepare_platform, read_or_detect_platform

if TYPE_CHECKING:
    from tvm_hetero.cluster.decoder import ClusterDecoder
    from tvm_hetero.cluster.driver import Cluster as RunningCluster
    from tvm_hetero.cluster.executor import ClusterExecutor
    from tvm_hetero.platform.division import Division
    from tvm_hetero.platform.model import Platform

ClusterOption = Annotated[
    str | None,
    typer.Option(
        "--cluster", metavar="FILE|auto", help="Run on the nodes of a cluster. [needs Ray]"
    ),
]


@contextmanager
def start_nodes(steps: Steps, where: str) -> Iterator[RunningCluster]:
    """Step: start the nodes of a cluster; they end with the block."""
    with steps.step("Start nodes", of=where) as step:
        from tvm_hetero.cluster.driver import Cluster

        running = Cluster(where)
        step.note = ", ".join(running.nodes)
    with running:
        yield running


@contextmanager
def prepare_costs(
    steps: Steps,
    platform: Path | None,
    cost_model: str,
    where: str | None,
    division: Division | None = None,
) -> Iterator[tuple[Platform, Any]]:
    """Steps: the platform to plan for, and what knows the costs on it. With a cluster, that is the
    platform of its nodes unless another one is given, and they measure what is to be measured.
    `division` is for `prepare_platform`.
    """
    if where is None:
        yield prepare_platform(steps, platform, cost_model, division), cost_model
        return
    with start_nodes(steps, where) as running:
        from tvm_hetero.cluster.costs import ClusterCosts
        from tvm_hetero.cost_models.registry import measures

        yield (
            survey_nodes(steps, running) if platform is None else read_or_detect_platform(platform),
            ClusterCosts(running) if measures(cost_model) else cost_model,
        )


@contextmanager
def place_executor(steps: Steps, artifact: Path, where: str) -> Iterator[ClusterExecutor]:
    """Steps: start a cluster and place an artifact's model on its nodes."""
    from tvm_hetero.cluster.executor import ClusterExecutor
    from tvm_hetero.cluster.replan import ScheduledModel

    with steps.step("Load artifact", of=artifact) as step:
        whole = ScheduledModel.load(artifact)
        step.note = str(artifact)
    with start_nodes(steps, where) as running:
        with steps.step("Place parts", of=where) as step:
            executor = ClusterExecutor(running, whole)
            step.note = f"on {', '.join(executor.nodes)}"
        with executor:
            yield executor
        _say_lost(steps, running)


@contextmanager
def place_decoder(steps: Steps, folder: Path, where: str) -> Iterator[ClusterDecoder]:
    """Steps: start a cluster and place a decoder on its nodes."""
    from tvm_hetero.cluster.decoder import ClusterDecoder, load_placed

    with steps.step("Load decoder", of=folder) as step:
        facts, step_plan, prefill = load_placed(folder)
        step.note = str(folder)
    with start_nodes(steps, where) as running:
        with steps.step("Place parts", of=where) as step:
            decoder = ClusterDecoder(
                running, step_plan, prefill, groups=facts.groups, stop=facts.eos, facts=facts
            )
            step.note = f"on {', '.join(decoder.nodes)}"
        with decoder:
            yield decoder
        _say_lost(steps, running)


def survey_nodes(steps: Steps, running: RunningCluster) -> Platform:
    """Step: the platform of all nodes."""
    from tvm_hetero.cluster.survey import survey

    with steps.step("Measure network", of=", ".join(running.nodes)) as step:
        platform = survey(running)
        step.note = _network(platform.fabrics)
    return platform


def _say_lost(steps: Steps, running: RunningCluster) -> None:
    from tvm_hetero.util.untrusted_names import printable

    for node, reason in running.lost.items():
        steps.say(printable(f"node {node} was lost: {reason}", limit=None), "yellow")


def _network(fabrics: Any) -> str:
    from tvm_hetero.util.units import format_seconds

    return ", ".join(
        f"{format_seconds(f.latency)} and {f.bandwidth / 1e9:.2f} GB/s" for f in fabrics
    )
