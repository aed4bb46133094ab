"""``tvm-hetero cluster``: which nodes there are, and what they are together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from tvm_hetero.cli.shared import options
from tvm_hetero.cli.shared.clusters import start_nodes, survey_nodes
from tvm_hetero.cli.shared.console import Steps


def cluster(
    where: Annotated[
        str, typer.Argument(metavar="FILE|auto", help="A cluster file, or the Ray that runs.")
    ] = "auto",
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="P.yaml", help="Write the platform of all nodes."),
    ] = None,
    json_output: options.AsJson = False,
) -> None:
    """List and measure the nodes of a cluster."""
    from tvm_hetero.util.untrusted_names import printable

    options.check_writable(output)
    steps = Steps(quiet=json_output)
    with start_nodes(steps, where) as running:
        about = running.describe()
        if output is not None:
            survey_nodes(steps, running).save(output)
    if json_output:
        typer.echo(json.dumps(about))
        return
    for row in about:
        devices = ", ".join(str(d["name"]) for d in row["platform"]["devices"])
        versions = ", ".join(f"{k} {v}" for k, v in row["versions"].items())
        cores = ",".join(map(str, row["cores"]))
        steps.say(
            printable(f"{row['name']}: {row['host']}, cores {cores}, devices {devices}", limit=None)
        )
        steps.say(printable(f"    {versions}, process {row['pid']}", limit=None))
    if output is not None:
        steps.say(f"wrote {printable(output, limit=None)}", "green")
