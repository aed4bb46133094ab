"""``tvm-hetero zoo``: scheduling problems with real shapes, without a model and without TVM."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tvm_hetero.cli.shared import options
from tvm_hetero.cli.shared.console import Steps
from tvm_hetero.cli.shared.platforms import resolve_platform
from tvm_hetero.cli.shared.zoo_settings import parse_setting
from tvm_hetero.errors import UsageError

if TYPE_CHECKING:
    from tvm_hetero.zoo import ZooEntry


def zoo(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="A network. [default: list them]")
    ] = None,
    platform: Annotated[
        str,
        typer.Option("--platform", help="A name, such as diviml or h100x8:4+t4x4:2, or a file."),
    ] = "diviml",
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="PROBLEM.json", help="The file to write."),
    ] = None,
    objective: options.ObjectiveKind = "latency",
    batch: options.Batch = 1,
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, help="Of networks that are random.")
    ] = None,
    size: Annotated[
        int | None, typer.Option("--size", min=1, help="Layers, depth, tasks: see the list.")
    ] = None,
    parameters: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A parameter of the network; repeatable."),
    ] = None,
    json_output: options.AsJson = False,
) -> None:
    """List problems of the zoo, or write one."""
    if name is None:
        typer.echo(_list_json() if json_output else _list_text())
        return
    from tvm_hetero import zoo
    from tvm_hetero.report.schedule.text import problem_text
    from tvm_hetero.util.text_tables import printable

    entry = zoo.describe(name)
    chosen = _chosen(name, entry, seed, size, parameters or [])
    goal = options.parse_objective(objective, batch)
    options.check_writable(output)
    steps = Steps(quiet=json_output)
    with steps.step("Make problem") as step:
        problem = zoo.problem(name, resolve_platform(platform), goal, **chosen)
        step.note = f"{len(problem.tasks)} tasks, {len(problem.platform.devices)} devices"
    if output is not None:
        problem.save(output)
    if json_output:
        typer.echo(json.dumps(problem.to_dict()))
        return
    steps.say()
    steps.say(problem_text(problem))
    if output is not None:
        steps.say(f"wrote {printable(output)}", "green")


def _list_text() -> str:
    from tvm_hetero import zoo
    from tvm_hetero.util.text_tables import table

    rows = []
    for name in zoo.names():
        entry = zoo.describe(name)
        set_by = ", ".join(f"{k}={v}" for k, v in entry.parameters.items())
        rows.append([name, entry.tasks, entry.what, entry.size or "-", set_by])
    networks = table(["network", "tasks", "what", "--size", "parameters"], rows)
    return f"{networks}\n\nplatforms: {', '.join(zoo.platform_names())}"


def _list_json() -> str:
    from tvm_hetero import zoo

    rows = {}
    for name in zoo.names():
        entry = zoo.describe(name)
        rows[name] = {
            "tasks": entry.tasks,
            "what": entry.what,
            "size": entry.size or None,
            "parameters": entry.parameters,
        }
    return json.dumps({"networks": rows, "platforms": list(zoo.platform_names())}, indent=1)


def _chosen(
    name: str, entry: ZooEntry, seed: int | None, size: int | None, texts: list[str]
) -> dict[str, Any]:
    """The parameters that were given, by ``--set``, ``--seed`` and ``--size``."""
    chosen = dict(parse_setting(name, entry, text) for text in texts)
    if seed is not None:
        if "seed" not in entry.parameters:
            raise UsageError(f"--seed: {name} is not random; leave it out")
        chosen["seed"] = seed
    if size is not None:
        if not entry.size:
            raise UsageError(f"--size: {name} has one size only; leave it out")
        chosen[entry.size] = size
    return chosen
