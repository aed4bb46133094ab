"""``tvm-hetero tune``: hours of search for quicker kernels; partition then uses what it found."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tvm_hetero.cli.shared import options
from tvm_hetero.cli.shared.console import Steps
from tvm_hetero.cli.shared.import_model import import_model
from tvm_hetero.cli.shared.platforms import read_or_detect_platform
from tvm_hetero.util.units import format_seconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from tvm_hetero.pipeline.tune import Tuned, TuningWork
    from tvm_hetero.platform.model import Platform


def tune(
    model: options.ModelFile,
    platform: options.PlatformFile = None,
    device: Annotated[
        str | None,
        typer.Option("--device", metavar="NAME", help="A CPU. [default: one of each target]"),
    ] = None,
    trials: Annotated[
        int, typer.Option("--trials", min=1, help="Schedules to try for each kernel, in all runs.")
    ] = 64,
    time_limit: Annotated[
        float, typer.Option("--time-limit", min=0, help="Seconds after which no trial begins.")
    ] = 3600.0,
    kernels: Annotated[
        str, typer.Option("--kernels", metavar="TEXT", help="Only kernels with this in their name.")
    ] = "",
    seed: options.Seed = 0,
    shape: options.Shapes = None,
    value: options.Values = None,
    random_weights: options.RandomWeights = None,
    json_output: options.AsJson = False,
) -> None:
    """Search for quicker kernels of a model."""
    shapes, values = options.parse_shapes(shape), options.parse_values(value)
    steps = Steps(quiet=json_output)
    with steps.step("Load platform") as step:
        place = read_or_detect_platform(platform)
        step.note = ", ".join(place.names)
    module = import_model(steps, model, shapes, values, random_weights)

    from tvm_hetero.pipeline.tune import devices_to_tune, kernels_to_tune
    from tvm_hetero.util.text_tables import count_noun

    with steps.step("Lower and measure") as step:
        devices = devices_to_tune(place, device)
        works = kernels_to_tune(module, place, devices, kernels, progress=step.progress)
        step.note = f"{count_noun(len(works), 'kernel')} on {', '.join(d.name for d in devices)}"
    found: list[Tuned] = []
    try:
        _search(steps, works, place, found, trials, time_limit, seed)
    finally:  # after Ctrl-C too: what was found is in the store
        if json_output:
            typer.echo(json.dumps([_json(each) for each in found]))
        else:
            _report(steps, found, len(works), model)


def _search(
    steps: Steps,
    works: Sequence[TuningWork],
    platform: Platform,
    found: list[Tuned],
    trials: int,
    time_limit: float,
    seed: int,
) -> None:
    """Step: tune kernel after kernel; `found` grows while that goes on."""
    from tvm_hetero.pipeline.tune import tune

    with steps.step("Tune") as step:

        def tell(done: int, total: int, best: float, kernel: str) -> None:
            step.progress(f"{kernel}, best {best:.2f} times", done, total)

        # What was found before an exception stays in the list.
        found.extend(tune(works, platform, trials, time_limit, seed, progress=tell))
        quicker = sum(each.tuning.trace is not None for each in found)
        step.note = f"{quicker} of {len(found)} kernels are quicker"


def _report(steps: Steps, found: Sequence[Tuned], total: int, model: Path) -> None:
    from tvm_hetero.util.text_tables import count_noun, format_table
    from tvm_hetero.util.untrusted_names import printable

    if not found:
        steps.say("No kernel was tuned; give it more seconds with --time-limit.", "yellow")
        return
    steps.head(f"Tuned kernels of {printable(model.name, limit=None)}")
    steps.say(format_table(_HEADERS, [_row(each) for each in found]))
    before, after = _sum(found, tuned=False), _sum(found, tuned=True)
    steps.say(f"\nTheir tasks: {format_seconds(before)} by rule, {format_seconds(after)} tuned.")
    if len(found) < total:
        left = count_noun(total - len(found), "kernel")
        steps.say(f"{left} not reached; run the same command again to go on.", "yellow")
    steps.say("Now run 'tvm-hetero partition': it uses tuned kernels wherever they are quicker.")


_HEADERS = ("kernel", "device", "tasks", "by rule", "tuned", "speed-up", "trials")


def _row(each: Tuned) -> list[str]:
    tuning = each.tuning
    quicker = tuning.seconds is not None
    return [
        each.work.kernel.name,
        each.work.device.name,
        str(each.work.tasks),
        format_seconds(tuning.rule_seconds),
        format_seconds(tuning.seconds) if tuning.seconds is not None else "-",
        f"{_speed_up(each):.2f}" if quicker else "-",
        str(tuning.trials),
    ]


def _speed_up(each: Tuned) -> float:
    return each.tuning.rule_seconds / (each.tuning.seconds or each.tuning.rule_seconds)


def _sum(found: Iterable[Tuned], *, tuned: bool) -> float:
    """Seconds of all tasks of these kernels."""
    return sum(
        each.work.tasks * each.tuning.rule_seconds / (_speed_up(each) if tuned else 1.0)
        for each in found
    )


def _json(each: Tuned) -> dict[str, Any]:
    """What ``tune --json`` prints for a kernel."""
    return {
        "kernel": each.work.kernel.name,
        "device": each.work.device.name,
        "tasks": each.work.tasks,
        "rule_seconds": each.tuning.rule_seconds,
        "seconds": each.tuning.seconds,
        "speed_up": _speed_up(each),
        "trials": each.tuning.trials,
    }
