"""``tvm-hetero record``: what a model's blocks take on kinds of places, alone and disturbed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tvm_hetero.cli.shared import options
from tvm_hetero.cli.shared.console import Steps
from tvm_hetero.cli.shared.import_model import import_model

if TYPE_CHECKING:
    from tvm_hetero.online.table import Recording


def record(
    model: options.ModelFile,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="TABLE.json", help="The file to write.")
    ],
    places: Annotated[
        list[str] | None,
        typer.Option(
            "--places",
            metavar="KIND:WIDTHS",
            help="Kind of cores (native, or what LLVM calls a CPU) and widths, such as "
            "x86-64-v2:1,2; repeatable. [default: native:1]",
        ),
    ] = None,
    disturb: Annotated[
        list[str] | None,
        typer.Option(
            "--disturb",
            metavar="KIND[@WHERE]",
            help="busy (loop), stream (of memory) or thrash (of the last-level cache), on the "
            "place's own core (@own, of busy the default) or beside it (@beside); repeatable. "
            "[default: all three]",
        ),
    ] = None,
    seconds: Annotated[
        float,
        typer.Option("--seconds", min=0.01, max=60, help="Of measuring in each scenario."),
    ] = 2.0,
    noise: Annotated[
        int,
        typer.Option("--noise", min=0, max=100_000, help="Requests at rest whose times are kept."),
    ] = 500,
    cost_model: Annotated[
        str,
        typer.Option(
            "--cost-model",
            help="By which ways to compute kernels are chosen: profiled-alone, or quick.",
        ),
    ] = "profiled-alone",
    shape: options.Shapes = None,
    value: options.Values = None,
    random_weights: options.RandomWeights = None,
    json_output: options.AsJson = False,
) -> None:
    """Record what blocks take, alone and disturbed."""
    from tvm_hetero.online.record.places import parse_places
    from tvm_hetero.online.record.scenarios import parse_scenarios

    shapes, values = options.parse_shapes(shape), options.parse_values(value)
    kinds = parse_places(places or ["native:1"])
    scenarios = parse_scenarios(["busy", "stream", "thrash"] if disturb is None else disturb)
    options.check_writable(output)
    steps = Steps(quiet=json_output)
    module = import_model(steps, model, shapes, values, random_weights)

    from tvm_hetero.online.record.recorder import RecordingPlan, prepare
    from tvm_hetero.online.record.recorder import record as run
    from tvm_hetero.util.untrusted_names import printable

    plan = RecordingPlan(kinds, scenarios, seconds, noise, cost_model)
    with steps.step("Prepare kernels") as step:
        prepared = prepare(module, plan, step.progress)
        step.note = ", ".join(prepared.problem.platform.names)
    with steps.step("Record") as step:
        recording = run(prepared, plan, step.progress)
        step.note = f"{len(recording.blocks)} blocks in {len(scenarios)} scenarios"
    recording.save(output)
    if json_output:
        typer.echo(json.dumps(_totals(recording)))
        return
    steps.head(f"Seconds of {printable(recording.name, limit=None)}, all blocks")
    steps.say(_table(recording))
    steps.say(f"wrote {printable(output, limit=None)}", "green")


def _totals(recording: Recording) -> dict[str, dict[str, float]]:
    """Seconds of all blocks in each scenario, on each kind and width."""
    return {
        scenario: {
            f"{kind}:{width}": sum(recording.seconds[scenario][kind][width])
            for kind, widths in recording.kinds.items()
            for width in widths
        }
        for scenario in recording.scenarios
    }


def _table(recording: Recording) -> str:
    """A line a place: alone in seconds, the disturbances as multiples of that."""
    from tvm_hetero.util.text_tables import format_table
    from tvm_hetero.util.units import format_seconds

    totals = _totals(recording)
    alone, *others = recording.scenarios
    rows = [
        [
            place,
            format_seconds(seconds),
            *(f"{totals[scenario][place] / seconds:.2f} x" for scenario in others),
        ]
        for place, seconds in totals[alone].items()
    ]
    return format_table(["place", *recording.scenarios], rows)
