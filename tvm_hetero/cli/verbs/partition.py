"""``tvm-hetero partition``: a model, divided over the devices and compiled for them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from tvm_hetero.cli.shared import options
from tvm_hetero.cli.shared.clusters import ClusterOption, prepare_costs
from tvm_hetero.cli.shared.console import Steps, chart_width
from tvm_hetero.cli.shared.divisions import (
    SplitOption,
    TargetMachine,
    TeamsOption,
    divisions_of,
    partition_on,
)
from tvm_hetero.cli.shared.given_plan import (
    PlanOption,
    PlanProblemOption,
    build_given,
    read_given_plan,
    refuse_beside_plan,
)
from tvm_hetero.cli.shared.import_model import holds_encoder, import_model
from tvm_hetero.cli.shared.open_shapes import parse_open_shapes
from tvm_hetero.cli.shared.partition_steps import (
    partition_json,
    save_artifact,
    say_estimates,
    say_kernels,
    say_precision,
    say_probabilities,
)
from tvm_hetero.cli.shared.precision_options import (
    AccuracyOption,
    CalibrationOption,
    ChecksOption,
    PrecisionOption,
    precision_settings,
    refuse_precision,
)
from tvm_hetero.decoders.text_files import copy_text_files
from tvm_hetero.errors import UsageError


def partition(
    context: typer.Context,
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL",
            help="An ONNX model, a Relay module saved by an old TVM (.json, .txt), or the folder "
            "of a Hugging Face decoder or encoder (config.json).",
        ),
    ],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="NET.hetero", help="The folder to write.")
    ],
    platform: options.PlatformFile = None,
    split: SplitOption = None,
    teams: TeamsOption = None,
    objective: options.ObjectiveKind = "latency",
    batch: options.Batch = 1,
    solver: options.Solver = "auto",
    time_limit: Annotated[
        float | None,
        typer.Option(
            "--time-limit",
            help="Seconds that the solver may take. [default: 5; with --quick 2]",
        ),
    ] = None,
    gap: options.Gap = 1e-3,
    seed: options.Seed = 0,
    cost_model: options.CostModel = "profiled",
    shape: options.Shapes = None,
    value: options.Values = None,
    random_weights: options.RandomWeights = None,
    length: Annotated[
        int | None,
        typer.Option(
            "--length", help="Of a decoder: tokens of the longest text. [default: the model's]"
        ),
    ] = None,
    chunk: Annotated[
        int | None,
        typer.Option("--chunk", help="Of a decoder: tokens of a prefill at once; 1: none."),
    ] = None,
    groups: Annotated[
        int | None,
        typer.Option(
            "--groups", help="Of a decoder: groups of --batch sequences, in flight together."
        ),
    ] = None,
    shards: Annotated[
        int | None,
        typer.Option("--shards", help="Of a decoder: parts that each layer is divided into."),
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option("--weights", help="Of a decoder: float32 (default), bfloat16, int8 or int4."),
    ] = None,
    cache: Annotated[
        str | None,
        typer.Option(
            "--cache", help="Of a decoder's keys and values: float32 (default), bfloat16, float16."
        ),
    ] = None,
    probability: options.Probabilities = None,
    params: options.Params = None,
    respect_annotations: Annotated[
        bool,
        typer.Option(
            "--respect-annotations",
            help="Of a Relay module: run what is annotated on_device on that device.",
        ),
    ] = False,
    plain_sums: Annotated[
        bool,
        typer.Option(
            "--plain-sums",
            help="Sum convolutions up as written, never by Winograd's tiles: slower, errors about "
            "a tenth.",
        ),
    ] = False,
    precision: PrecisionOption = "float32",
    accuracy: AccuracyOption = None,
    calibration: CalibrationOption = None,
    checks: ChecksOption = None,
    no_measure: Annotated[
        bool,
        typer.Option(
            "--no-measure", help="Do not run plan and best single device to keep the quicker one."
        ),
    ] = False,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help="A running artifact in seconds: few kernels are measured, the others' costs "
            "estimated; 'refine' measures them.",
        ),
    ] = False,
    build: Annotated[
        str | None,
        typer.Option(
            "--build",
            help="With several sizes: those that are built when they are first asked for; range "
            "(default), any, or never.",
        ),
    ] = None,
    cluster: ClusterOption = None,
    plan: PlanOption = None,
    problem: PlanProblemOption = None,
    json_output: options.AsJson = False,
) -> None:
    """Place a model on devices and compile it.

    Plan and best single device are run; the quicker one is what the artifact runs. For latency
    on this machine the plan is on teams of cores; one on the cores divided is made and run, too.
    """
    from tvm_hetero.pipeline.options import QUICK_SECONDS, SECONDS, PartitionOptions
    from tvm_hetero.report.schedule.text import schedule_text
    from tvm_hetero.util.untrusted_names import printable

    opened, values = parse_open_shapes(shape), options.parse_values(value)
    shapes = {} if opened else options.parse_shapes(shape)
    goal = options.parse_objective(objective, batch)
    options.check_writable(output, folder=True)
    given = None
    if plan is not None:
        refuse_beside_plan(context)
        _refuse_other_models(model, opened=bool(opened))
        given = read_given_plan(plan, problem, platform)
        platform = None
    elif problem is not None:
        raise UsageError("--problem is of a plan that is given; add --plan SCHEDULE.json")
    if quick:
        cost_model = _quick_model(cost_model, cluster)
    if time_limit is None:
        time_limit = QUICK_SECONDS if quick else SECONDS
    machine = TargetMachine(platform, cost_model, cluster, split, teams)
    options.check_split(split)
    steps = Steps(quiet=json_output)
    asked = {
        "length": length, "chunk": chunk, "groups": groups, "shards": shards, "weights": weights,
        "cache": cache,
    }  # fmt: skip
    how = PartitionOptions(
        objective=goal,
        solver=solver,
        time_limit=time_limit,
        gap=gap,
        seed=seed,
        respect_annotations=respect_annotations,
        plain_sums=plain_sums,
        probabilities=options.parse_probabilities(probability),
        **precision_settings(precision, accuracy, calibration, checks),
    )
    if opened:
        from tvm_hetero.cli.shared.partition_sizes import partition_open_model, refuse_closed

        refuse_closed(model, cluster=cluster, params=params, probability=bool(probability))
        _refuse_decoder_options(model, asked)
        refuse_precision(precision, "there is none for several sizes; give one shape")
        from tvm_hetero.sizes.build import OpenModel, size_facts

        of_sizes = OpenModel(model, opened, values, random_weights, build or "range")
        size_facts(of_sizes, how)  # what can be refused is, before anything is measured
        (way,) = divisions_of(machine, how, measure=False)
        with prepare_costs(steps, platform, cost_model, cluster, way) as (place, costs):
            partition_open_model(
                steps, of_sizes, output, place, replace(how, cost_model=costs),
                measure=not no_measure, json_output=json_output,
            )  # fmt: skip
        return
    if build is not None:
        raise UsageError("--build is for several sizes, such as --shape x=1x3x48x160..640/32")
    if model.is_dir() and not holds_encoder(model):
        from tvm_hetero.cli.shared.partition_decoder import decoder_options, partition_decoder

        refuse_precision(precision, "decoders have a type of their weights instead (--weights)")
        if probability:
            raise UsageError("--probability is for models with an If; decoders have none")
        decoder = decoder_options(
            model, asked, batch, shape=shape, value=value, random_weights=random_weights
        )
        # Annotations and convolutions are none of a decoder's.
        how = replace(how, respect_annotations=False, plain_sums=False)
        (way,) = divisions_of(machine, how, measure=False)
        with prepare_costs(steps, platform, cost_model, cluster, way) as (place, costs):
            partition_decoder(
                steps, model, output, place, decoder, replace(how, cost_model=costs),
                measure=not no_measure, json_output=json_output,
            )  # fmt: skip
        return
    _refuse_decoder_options(model, asked)
    module = import_model(steps, model, shapes, values, random_weights, params)
    if given is not None:
        result, executable = build_given(steps, module, given, how)
        goal = given.problem.objective
    else:
        result, executable = partition_on(steps, module, machine, how, measure=not no_measure)
    save_artifact(steps, executable, output)
    if model.is_dir():
        copy_text_files(model, output)
    if json_output:
        typer.echo(json.dumps(partition_json(result, executable, steps.seconds, output)))
        return
    steps.head(
        f"Plan of {printable(result.problem.name, limit=None)}, {goal.kind}, batch {goal.batch}"
    )
    steps.say(schedule_text(result.schedule, result.problem, chart_width()))
    say_probabilities(steps, how.probabilities)
    say_kernels(steps, result, output)
    say_precision(steps, executable)
    say_estimates(steps, executable, output)
    steps.say(f"wrote {printable(output, limit=None)}", "green")


def _quick_model(cost_model: str, cluster: str | None) -> str:
    """The cost model that ``--quick`` stands for; refused beside what asks for another one."""
    from tvm_hetero.cost_models.registry import ESTIMATING

    if cost_model not in ("profiled", ESTIMATING):
        raise UsageError(
            f"--quick has a cost model of its own, and --cost-model {cost_model} is another one; "
            "leave one of them out"
        )
    if cluster is not None:
        raise UsageError(
            "--quick measures on this machine, and --cluster on its nodes; leave one of them out"
        )
    return ESTIMATING


def _refuse_other_models(model: Path, *, opened: bool) -> None:
    """A given plan is of one artifact, and a decoder has two, a range of sizes many."""
    if opened:
        raise UsageError("--plan is of one size; give --shape one size of each dimension")
    if model.is_dir() and not holds_encoder(model):
        raise UsageError(
            f"--plan is for models that are one artifact; {model} is a decoder, which has two"
        )


def _refuse_decoder_options(model: Path, asked: Mapping[str, object]) -> None:
    for option, value in asked.items():
        if value is not None:
            raise UsageError(
                f"--{option} is for decoders, which are folders from Hugging Face; {model} is none"
            )
