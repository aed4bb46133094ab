"""``tvm-hetero devices``: what this machine has; writes it down as a platform file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tvm_hetero.cli.shared.console import Steps
from tvm_hetero.cli.shared.options import AsJson, check_split, check_writable
from tvm_hetero.cli.shared.platforms import measure_links
from tvm_hetero.errors import UsageError

if TYPE_CHECKING:
    from tvm_hetero.platform.model import Platform


def devices(
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="P.yaml", help="Write a platform file."),
    ] = None,
    split: Annotated[
        int | None,
        typer.Option("--split", metavar="N", min=1, help="Divide the cores into N CPU devices."),
    ] = None,
    mcpu: Annotated[
        list[str] | None,
        typer.Option(
            "--mcpu",
            metavar="CPU",
            help="What LLVM compiles for, device by device (native: this CPU); repeatable.",
        ),
    ] = None,
    teams: Annotated[
        str,
        typer.Option(
            "--teams",
            metavar="none|all|1,2,4",
            help="CPU devices are teams of so many cores, which overlap.",
        ),
    ] = "none",
    measure: Annotated[
        bool,
        typer.Option(
            "--measure",
            help="Measure what moving tensors costs, and how devices slow each other down.",
        ),
    ] = False,
    json_output: AsJson = False,
) -> None:
    """List the devices of this machine."""
    from tvm_hetero.platform.host import read_processor
    from tvm_hetero.platform.model import Platform
    from tvm_hetero.report.schedule.text import device_table, link_table
    from tvm_hetero.util.documents import canonical_json
    from tvm_hetero.util.untrusted_names import printable

    if mcpu and split is None and teams == "none":
        raise UsageError("--mcpu says what each part is compiled for; add --split N")
    check_split(split)
    check_writable(output)
    steps = Steps(quiet=json_output)
    names = [None if name == "native" else name for name in mcpu or []]
    platform = Platform.detect(split, names, teams=teams)
    if measure:
        platform = measure_interference(steps, measure_links(steps, platform, again=True))
    if output is not None:
        platform.save(output)
    if json_output:
        typer.echo(canonical_json(platform.to_dict()))
        return
    steps.say(printable(read_processor().identity, limit=None))
    steps.say(device_table(platform))
    if platform.links or platform.fabrics:
        steps.say("\n" + link_table(platform))
    if len(platform.devices) == 1:
        steps.say("One device only: there is nothing that could run at the same time.", "yellow")
    if output is not None:
        steps.say(f"wrote {printable(output, limit=None)}")


def measure_interference(steps: Steps, platform: Platform) -> Platform:
    """Step: measure how much slower each device is while all of them compute."""
    from tvm_hetero.pipeline import interference

    if len(platform.devices) < 2:
        return platform
    with steps.step("Measure interference") as step:
        platform = interference.measure_interference(platform, step.progress)
        step.note = ", ".join(f"{d.name} {d.interference:.2f}" for d in platform.devices)
    return platform
