"""``tvm-hetero run``: run an artifact, measure it, keep its outputs and its trace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tvm_hetero.cli.shared import options
from tvm_hetero.cli.shared.clusters import ClusterOption
from tvm_hetero.cli.shared.completion import offer, online_policies
from tvm_hetero.cli.shared.console import Steps
from tvm_hetero.cli.shared.executors import load_executor, load_streaming, write_trace
from tvm_hetero.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tvm_hetero.executor.executor import Executor
    from tvm_hetero.util.statistics import Statistics

Variant = Annotated[
    str | None, typer.Option("--variant", help="partition or single. [default: the artifact's]")
]


def run(
    artifact: options.Artifact,
    random: Annotated[bool, typer.Option("--random", help="Seeded random inputs.")] = False,
    input_file: Annotated[
        Path | None, typer.Option("--input", metavar="X.npz", help="Inputs, arrays by name.")
    ] = None,
    output_file: Annotated[
        Path | None, typer.Option("--output", metavar="Y.npz", help="Write the outputs.")
    ] = None,
    seed: options.Seed = 0,
    repeat: options.Repeat = 50,
    warmup: options.Warmup = 5,
    trace_file: Annotated[
        Path | None,
        typer.Option("--trace", metavar="T.json", help="Write a Chrome/Perfetto trace."),
    ] = None,
    variant: Variant = None,
    check_numerics: Annotated[
        bool,
        typer.Option("--check-numerics", help="Stop at the first task whose output is not finite."),
    ] = False,
    deadline: Annotated[
        float | None, typer.Option("--deadline", metavar="S", help="Seconds that a run may take.")
    ] = None,
    cluster: ClusterOption = None,
    stream: Annotated[
        bool,
        typer.Option("--stream", help="Run inputs as fast as they go through, for --seconds."),
    ] = False,
    seconds: Annotated[
        float, typer.Option("--seconds", metavar="S", help="Of a stream.", min=0.0)
    ] = 10.0,
    adapt: Annotated[
        str | None,
        typer.Option(
            "--adapt",
            metavar="POLICY",
            help="Change a stream's plan as it needs: resolve, odin, lls, shisha, ... or none. The "
            "model must have been partitioned for throughput.",
            autocompletion=offer(online_policies),
        ),
    ] = None,
    alpha: Annotated[
        int, typer.Option("--alpha", help="Trials in vain after which a policy gives up.", min=1)
    ] = 10,
    json_output: options.AsJson = False,
) -> None:
    """Run a partitioned model and measure it."""
    if random == (input_file is not None):
        raise UsageError("give either --random or --input X.npz")
    if adapt is not None and not stream:
        raise UsageError("--adapt is for a stream: add --stream")
    if stream:
        given = {"--output": output_file, "--trace": trace_file, "--cluster": cluster,
                 "--deadline": deadline, "--check-numerics": check_numerics or None}  # fmt: skip
        _refuse_beside_stream([name for name, value in given.items() if value is not None])
        _run_stream(artifact, input_file, variant, adapt, alpha, seed, seconds, json_output)
        return
    options.check_writable(output_file, "--output")
    options.check_writable(trace_file, "--trace")
    if cluster is not None:
        if trace_file is not None or variant is not None or check_numerics:
            raise UsageError("--cluster runs the partition; leave out --trace, --variant and "
                             "--check-numerics")  # fmt: skip
        from tvm_hetero.cli.shared.run_on_cluster import run_on_cluster

        run_on_cluster(
            artifact, cluster, input_file, output_file, json_output,
            seed=seed, repeat=repeat, warmup=warmup, deadline=deadline,
        )  # fmt: skip
        return

    from tvm_hetero.cli.shared import measure
    from tvm_hetero.cli.shared.throughput import measure_throughput, say_throughput
    from tvm_hetero.cli.shared.time_breakdown import break_down_time, say_time_breakdown
    from tvm_hetero.util.untrusted_names import printable

    steps = Steps(quiet=json_output)
    breakdown = None
    with load_executor(steps, artifact, variant, input_file) as executor:
        if input_file is not None:
            inputs = measure.read_inputs(input_file)
        else:
            inputs = executor.inputs_that_run(seed)
        with steps.step("Run", of=artifact):
            executor.check_numerics = check_numerics
            outputs = [t.numpy() for t in executor.run(inputs, deadline=deadline)]
            executor.check_numerics = False  # what is measured does not look
        runner = measure.executor_runner(executor, inputs)
        with steps.step("Measure") as step:
            step.note = f"{repeat} runs after {warmup}"
            runners = {executor.variant: runner}
            measured = measure.measure_in_turns(runners, repeat, warmup, step.counter("runs"))
        throughput = measure_throughput(steps, {executor.variant: executor}, inputs, repeat)
        if output_file is not None:
            names = dict(zip(executor.outputs, outputs, strict=True))
            measure.write_outputs(output_file, names)
        if trace_file is not None:
            breakdown, trace = break_down_time(executor, inputs)
            write_trace(trace_file, executor, trace)
    facts: dict[str, Any] = {
        "artifact": str(artifact),
        "variant": executor.variant,
        "latency": measured[executor.variant].as_dict(),
        "predicted": find_prediction(executor),
        **({"throughput": throughput.as_dict()} if throughput else {}),
        **({"where": breakdown.as_dict()} if breakdown else {}),
        "outputs": describe(executor, outputs),
    }
    if json_output:
        typer.echo(json.dumps(facts))
    else:
        _say_run(steps, executor, facts["outputs"], measured)
        say_throughput(steps, throughput)
        if breakdown is not None:
            say_time_breakdown(steps, breakdown)
        for written in (output_file, trace_file):
            if written is not None:
                steps.say(f"wrote {printable(written, limit=None)}", "green")


def _refuse_beside_stream(given: list[str]) -> None:
    if given:
        raise UsageError(f"--stream measures a stream and no more; leave out {', '.join(given)}")


def _run_stream(
    artifact: Path,
    input_file: Path | None,
    variant: str | None,
    adapt: str | None,
    alpha: int,
    seed: int,
    seconds: float,
    json_output: bool,
) -> None:
    from tvm_hetero.cli.shared import measure
    from tvm_hetero.cli.shared.stream import StreamLog, run_stream, say_stream

    steps = Steps(quiet=json_output)
    log = StreamLog()
    policy = None if adapt in (None, "none") else adapt
    with load_streaming(steps, artifact, variant, policy, alpha, log.note) as executor:
        if input_file is not None:
            inputs = measure.read_inputs(input_file)
        else:
            inputs = executor.inputs_that_run(seed)
        run_stream(steps, executor, inputs, seconds, log)
    if json_output:
        typer.echo(json.dumps({"artifact": str(artifact), "policy": policy, **log.as_dict()}))
    else:
        say_stream(steps, log)


def find_prediction(executor: Executor) -> float | None:
    """The latency (s) that was predicted for the variant that runs; None if there is none."""
    from tvm_hetero.artifact.executable import SINGLE

    schedule = executor.schedule
    if schedule.kind != "latency":
        return None
    if executor.variant == SINGLE:
        return schedule.best_single_device.value if schedule.best_single_device else None
    return schedule.value


def _say_run(
    steps: Steps, executor: Executor, outputs: list[Any], measured: Mapping[str, Statistics]
) -> None:
    """Outputs, latency, the prediction beside the measured median, the plan's bottleneck."""
    from tvm_hetero.artifact.executable import PARTITION
    from tvm_hetero.report.run.run_table import statistics_table
    from tvm_hetero.report.schedule.text import name_bottleneck
    from tvm_hetero.util.units import format_seconds
    from tvm_hetero.util.untrusted_names import printable

    steps.head("Outputs")
    for row in outputs:
        steps.say(f"{printable(row['name'], limit=None)}: {row['dtype']} {row['shape']}")
    steps.head("Latency")
    steps.say(statistics_table(measured))
    steps.say()
    guess, median = find_prediction(executor), measured[executor.variant].median
    if guess:
        ratio = f"{median / guess:.2f} times the prediction"
        steps.say(f"predicted {format_seconds(guess)}, measured {format_seconds(median)}: {ratio}")
    if executor.variant == PARTITION:
        steps.say(printable(name_bottleneck(executor.schedule, executor.problem), limit=None))


def describe(executor: Executor, outputs: list[Any]) -> list[dict[str, Any]]:
    """Name, type and shape of every output."""
    return [
        {"name": name, "dtype": str(array.dtype), "shape": list(array.shape)}
        for name, array in zip(executor.outputs, outputs, strict=True)
    ]
