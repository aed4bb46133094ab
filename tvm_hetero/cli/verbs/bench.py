"""``tvm-hetero bench``: a partition beside the best single device and ONNX Runtime."""

from __future__ import annotations

import contextlib
import json
from dataclasses import asdict
from typing import Annotated

import typer

from tvm_hetero.cli.shared import options
from tvm_hetero.cli.shared.completion import offer_list
from tvm_hetero.cli.shared.console import Steps
from tvm_hetero.cli.shared.executors import load_executor
from tvm_hetero.cli.shared.rivals import (
    ONNXRUNTIME,
    PARTITION,
    SINGLE,
    load_reference,
    load_single,
    measure_against,
)
from tvm_hetero.errors import UsageError

_OPPONENTS = (SINGLE, ONNXRUNTIME)


def bench(
    artifact: options.Artifact,
    against: Annotated[
        str,
        typer.Option(
            "--against",
            help="single, onnxruntime, or both with a comma.",
            autocompletion=offer_list(lambda: _OPPONENTS),
        ),
    ] = ",".join(_OPPONENTS),
    seed: options.Seed = 0,
    repeat: options.Repeat = 50,
    warmup: options.Warmup = 5,
    json_output: options.AsJson = False,
) -> None:
    """Measure a partition against its rivals."""
    names = parse_opponents(against)
    from tvm_hetero.cli.shared.run_energy import energy_text, measure_energy
    from tvm_hetero.cli.shared.throughput import measure_throughput, say_throughput
    from tvm_hetero.cli.shared.time_breakdown import break_down_time, say_time_breakdown
    from tvm_hetero.report.run.run_table import assess_run, statistics_table

    steps = Steps(quiet=json_output)
    with contextlib.ExitStack() as stack:
        executor = stack.enter_context(load_executor(steps, artifact, PARTITION))
        single = load_single(steps, artifact, executor, stack) if SINGLE in names else None
        inputs = executor.inputs_that_run(seed)
        reference = None
        if ONNXRUNTIME in names:
            reference = load_reference(steps, artifact, executor)
        comparison = measure_against(steps, executor, single, reference, inputs, repeat, warmup)
        executors = {PARTITION: executor, **({SINGLE: single} if single else {})}
        throughput = measure_throughput(steps, executors, inputs, repeat)
        with steps.live("Measure energy", of=artifact):
            energy = measure_energy(executors, inputs, repeat)
        with steps.step("Trace", of=artifact):
            breakdown, _ = break_down_time(executor, inputs, single)
    measured, difference = comparison.measured, comparison.difference
    if json_output:
        facts = {
            "artifact": str(artifact),
            "predicted": executor.schedule.value,
            "lower_bound": executor.schedule.lower_bound,
            "note": comparison.note,
            "measured": {name: each.as_dict() for name, each in measured.items()},
            "difference": difference and asdict(difference),
            **({"throughput": throughput.as_dict()} if throughput else {}),
            "energy": energy,
            "where": breakdown.as_dict(),
        }
        typer.echo(json.dumps(facts))
        return
    steps.head("Latency")
    steps.say(statistics_table(measured))
    say_throughput(steps, throughput)
    steps.say("\n" + energy_text(energy))
    if SINGLE in names:
        # The plan is judged by what it was made for.
        judged = throughput.measured if throughput else measured
        text, tone = assess_run(executor.schedule, judged)
        steps.say("\n" + text, {"good": "green", "bad": "yellow"}.get(tone), bold=True)
    if difference is not None:
        steps.say(f"largest difference from ONNX Runtime's outputs: {difference}")
    say_time_breakdown(steps, breakdown)


def parse_opponents(text: str) -> list[str]:
    """Read ``single,onnxruntime``.

    Raises
    ------
    UsageError
        If a name is unknown; the nearest is suggested.
    """
    from tvm_hetero.util.nearest import nearest

    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in _OPPONENTS:
            raise UsageError(f"--against {name!r} is unknown{nearest(name, _OPPONENTS)}")
    return names
