"""``tvm-hetero zoo``: scheduling problems with real shapes, without a model and without TVM."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tvm_hetero.cli.shared import options
from tvm_hetero.cli.shared.completion import networks, offer, platforms
from tvm_hetero.cli.shared.console import Steps
from tvm_hetero.cli.shared.platforms import resolve_platform
from tvm_hetero.cli.shared.zoo_settings import parse_setting
from tvm_hetero.errors import UsageError

if TYPE_CHECKING:
    from tvm_hetero.problem.model import Problem


def zoo(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="A network, or a file of layers (.layers). [default: list them]",
            autocompletion=offer(networks),
        ),
    ] = None,
    platform: Annotated[
        str,
        typer.Option(
            "--platform",
            help="A name, such as diviml or h100x8:4+t4x4:2, or a file.",
            autocompletion=offer(platforms),
        ),
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
    hints: Annotated[
        bool,
        typer.Option("--hints", help="Show each task's weight: multiply-adds, or numbers read."),
    ] = False,
    json_output: options.AsJson = False,
) -> None:
    """List problems of the zoo, or write one."""
    if name is None:
        typer.echo(_list_json() if json_output else _list_text())
        return
    from tvm_hetero import zoo
    from tvm_hetero.report.schedule.text import problem_text
    from tvm_hetero.util.untrusted_names import printable

    chosen = _chosen(name, seed, size, parameters or [])
    goal = options.parse_objective(objective, batch)
    options.check_writable(output)
    steps = Steps(quiet=json_output)
    with steps.step("Make problem", of=name) as step:
        problem = zoo.problem(name, resolve_platform(platform), goal, **chosen)
        step.note = f"{len(problem.tasks)} tasks, {len(problem.platform.devices)} devices"
    if output is not None:
        problem.save(output)
    if json_output:
        typer.echo(_hints_json(problem) if hints else json.dumps(problem.to_dict()))
        return
    steps.say()
    steps.say(problem_text(problem))
    if hints:
        steps.say(_hints_text(problem))
    if output is not None:
        steps.say(f"wrote {printable(output, limit=None)}", "green")


def _list_text() -> str:
    from tvm_hetero import zoo
    from tvm_hetero.util.text_tables import format_table

    rows = []
    for name in zoo.names():
        entry = zoo.describe(name)
        set_by = ", ".join(f"{k}={v}" for k, v in entry.parameters.items())
        rows.append([name, entry.tasks, entry.what, entry.size or "-", set_by])
    networks = format_table(["network", "tasks", "what", "--size", "parameters"], rows)
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


def _hints_text(problem: Problem) -> str:
    """What each task weighs, and its share of all."""
    from tvm_hetero.online.hints import task_weights
    from tvm_hetero.util.text_tables import format_table

    weights = task_weights(problem.graph)
    total = sum(weights.values()) or 1.0
    rows = [
        [task, f"{weight:,.0f}", f"{weight / total:.2%}"]
        for task, weight in weights.items() if weight
    ]  # fmt: skip
    heavy = sum(weight > total / (2 * len(rows)) for weight in weights.values()) if rows else 0
    table = format_table(["task", "weight", "share"], rows)
    return f"\n{table}\n\nall: {total:,.0f}; {heavy} of {len(rows)} weigh half the mean or more"


def _hints_json(problem: Problem) -> str:
    from tvm_hetero.online.hints import task_weights

    return json.dumps({"problem": problem.name, "weights": task_weights(problem.graph)})


def _chosen(name: str, seed: int | None, size: int | None, texts: list[str]) -> dict[str, Any]:
    """The parameters that were given, by ``--set``, ``--seed`` and ``--size``."""
    from tvm_hetero import zoo
    from tvm_hetero.zoo.layer_lists import SUFFIX

    if name.endswith(SUFFIX):
        if texts or seed is not None or size is not None:
            raise UsageError("a file of layers has no parameters; leave --set, --seed, --size out")
        return {}
    entry = zoo.describe(name)
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
