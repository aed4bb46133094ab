"""``tvm-hetero run --cluster``: run an artifact on the nodes of a cluster, and measure it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tvm_hetero.cli.shared.clusters import place_executor
from tvm_hetero.cli.shared.console import Steps

if TYPE_CHECKING:
    from tvm_hetero.cluster.executor import ClusterExecutor
    from tvm_hetero.util.statistics import Statistics


def run_on_cluster(
    artifact: Path,
    where: str,
    input_file: Path | None,
    output_file: Path | None,
    json_output: bool,
    *,
    seed: int,
    repeat: int,
    warmup: int,
    deadline: float | None,
) -> None:
    """As ``run``, part by part on the nodes of a cluster."""
    from tvm_hetero.cli.shared import measure
    from tvm_hetero.util.untrusted_names import printable

    steps = Steps(quiet=json_output)
    with place_executor(steps, artifact, where) as executor:
        if input_file is not None:
            inputs = measure.read_inputs(input_file)
        else:
            inputs = executor.random_inputs(seed)
        with steps.step("Run", of=artifact):
            outputs = [out.numpy() for out in executor.run(inputs, deadline=deadline)]
        with steps.step("Measure") as step:
            step.note = f"{repeat} runs after {warmup}, alone and in a pipeline"
            latency, rate = _measured(executor, inputs, repeat, warmup, step.counter("runs"))
        nodes, lost = list(executor.nodes), dict(executor.cluster.lost)
    if output_file is not None:
        names = dict(zip(executor.outputs, outputs, strict=True))
        measure.write_outputs(output_file, names)
    rows = [
        {"name": name, "dtype": str(array.dtype), "shape": list(array.shape)}
        for name, array in zip(executor.outputs, outputs, strict=True)
    ]
    if json_output:
        facts = {"artifact": str(artifact), "nodes": nodes, "lost": lost,
                 "latency": latency.as_dict(), "requests_per_second": rate,
                 "outputs": rows}  # fmt: skip
        typer.echo(json.dumps(facts))
        return
    _say(steps, rows, latency, rate, nodes)
    if output_file is not None:
        steps.say(f"wrote {printable(output_file, limit=None)}", "green")


def _measured(
    executor: ClusterExecutor,
    inputs: Any,
    repeat: int,
    warmup: int,
    tell: Callable[[int, int], None],
) -> tuple[Statistics, float]:
    """Latency of requests alone, and requests a second of a pipeline of them."""
    from tvm_hetero.util.statistics import summarize

    seconds = []
    for number in range(warmup + repeat):
        tell(number, warmup + 2 * repeat)
        begin = time.perf_counter()
        executor.run(inputs)
        if number >= warmup:
            seconds.append(time.perf_counter() - begin)
    begin = time.perf_counter()
    for number, _ in enumerate(executor.map([inputs] * repeat), 1):
        tell(warmup + repeat + number, warmup + 2 * repeat)
    return summarize(seconds), repeat / (time.perf_counter() - begin)


def _say(
    steps: Steps, rows: list[dict[str, Any]], latency: Statistics, rate: float, nodes: list[str]
) -> None:
    from tvm_hetero.report.run.run_table import statistics_table
    from tvm_hetero.util.untrusted_names import printable

    steps.head("Outputs")
    for row in rows:
        steps.say(f"{printable(row['name'], limit=None)}: {row['dtype']} {row['shape']}")
    steps.head("Latency")
    steps.say(statistics_table({"cluster": latency}))
    steps.say()
    steps.say(printable(f"{rate:.1f} requests/s in a pipeline over {', '.join(nodes)}", limit=None))
