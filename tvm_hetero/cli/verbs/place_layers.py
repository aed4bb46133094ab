"""``tvm-hetero place-layers``: which nodes hold which layers of a model that they share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from tvm_hetero.cli.shared import options
from tvm_hetero.cli.shared.console import Steps


def place_layers(
    problem: Annotated[
        Path, typer.Argument(metavar="PROBLEM.yaml", help="Layers, nodes and links.")
    ],
    judge: Annotated[
        Path | None,
        typer.Option("--judge", metavar="LAYOUT.json", help="Only say what this layout passes."),
    ] = None,
    time_limit: options.TimeLimit = 10.0,
    gap: options.Gap = 1e-6,
    seed: options.Seed = 0,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="LAYOUT.json", help="The layout to write."),
    ] = None,
    json_output: options.AsJson = False,
) -> None:
    """Place a model's layers on many unlike nodes (without TVM).

    Each node holds some layers in a row; several may hold the same. The most tokens a second.
    """
    from tvm_hetero.planning import helix
    from tvm_hetero.report.planning.layer_flow import layer_flow_dict, layer_flow_text
    from tvm_hetero.solvers import Options
    from tvm_hetero.util.documents import read_document, write_atomic
    from tvm_hetero.util.untrusted_names import printable

    options.check_writable(output, "-o")
    steps = Steps(quiet=json_output)
    given = helix.load_layer_flow(problem)
    if judge is not None:
        layout = helix.parse_layer_layout(read_document(judge), given, str(judge))
        answer = helix.judge_layout(given, layout)
    else:
        with steps.step("Place", time_limit) as step:
            answer = helix.solve_layer_flow(
                given, Options(time_limit=time_limit, gap=gap, seed=seed)
            )
            step.note = f"{given.layers} layers, {len(given.nodes)} nodes"
    if output is not None:
        document = helix.layout_document(given, answer.layout)
        write_atomic(output, json.dumps(document) + "\n")
    if json_output:
        typer.echo(json.dumps(layer_flow_dict(answer)))
        return
    steps.say()
    steps.say(layer_flow_text(answer))
    if output is not None:
        steps.say(f"wrote {printable(output, limit=None)}", "green")
