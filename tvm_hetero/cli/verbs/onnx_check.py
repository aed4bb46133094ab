"""``tvm-hetero onnx-check``: can this ONNX file be imported, and if not, what would help?"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from tvm_hetero.cli.shared import options
from tvm_hetero.cli.shared.console import Steps

if TYPE_CHECKING:
    from tvm_hetero.frontends.onnx.check import OnnxReport

REFUSED = 1


def onnx_check(
    model: options.ModelFile,
    shape: options.Shapes = None,
    value: options.Values = None,
    json_output: options.AsJson = False,
) -> None:
    """List what is in an ONNX file and cannot be imported.

    Nothing is measured. Everything at once, node by node; the exit status is then 1.
    """
    from tvm_hetero.frontends.onnx.check import onnx_check as look

    shapes, values = options.parse_shapes(shape), options.parse_values(value)
    steps = Steps(quiet=json_output)
    with steps.live("Check", of=model):
        report = look(model, shapes=shapes, values=values)
    if json_output:
        typer.echo(json.dumps(asdict(report)))
    else:
        _say(steps, report)
    if report.problems:
        raise typer.Exit(REFUSED)


def _say(steps: Steps, report: OnnxReport) -> None:
    from tvm_hetero.util.text_tables import count_noun, format_table
    from tvm_hetero.util.untrusted_names import printable

    listed = ", ".join(f"{name} x{count}" for name, count in report.operators.items())
    total = sum(report.operators.values())
    steps.say(f"opset {report.opset}, {count_noun(total, 'node')}")
    steps.say(printable(listed, limit=None))
    rows = [(each.name, each.dtype, each.shape) for each in report.inputs]
    if rows:
        steps.say(format_table(["input", "type", "shape"], rows))
    for problem in report.problems:
        steps.say(printable(problem, limit=None), "red")
    if report.needed:
        steps.say(printable(f"needed: {' '.join(report.needed)}", limit=None), "yellow")
    if report.problems:
        steps.say(count_noun(len(report.problems), "problem"), "red", bold=True)
    else:
        steps.say("every node can be imported", "green", bold=True)
