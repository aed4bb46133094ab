"""``tvm-hetero problem``: the scheduling problem of a model, for any scheduler."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tvm_hetero.cli.shared import options
from tvm_hetero.cli.shared.console import Steps
from tvm_hetero.cli.shared.import_model import import_model
from tvm_hetero.cli.shared.platforms import prepare_platform


def problem(
    model: options.ModelFile,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="PROBLEM.json", help="The file to write.")
    ],
    platform: options.PlatformFile = None,
    objective: options.ObjectiveKind = "latency",
    batch: options.Batch = 1,
    cost_model: options.CostModel = "profiled",
    shape: options.Shapes = None,
    value: options.Values = None,
    random_weights: options.RandomWeights = None,
    probability: options.Probabilities = None,
) -> None:
    """Write a model's scheduling problem."""
    from tvm_hetero.report.schedule.text import problem_text
    from tvm_hetero.util.untrusted_names import printable

    shapes, values = options.parse_shapes(shape), options.parse_values(value)
    probabilities = options.parse_probabilities(probability)
    goal = options.parse_objective(objective, batch)
    options.check_writable(output)
    steps = Steps()
    module = import_model(steps, model, shapes, values, random_weights)
    place = prepare_platform(steps, platform, cost_model)

    from tvm_hetero.pipeline.options import PartitionOptions
    from tvm_hetero.pipeline.partition import make_problem

    with steps.live("Make problem") as live:
        prepared = make_problem(
            module,
            place,
            PartitionOptions(objective=goal, cost_model=cost_model, probabilities=probabilities),
            progress=live.progress,
        )
    for title, seconds in prepared.seconds.items():
        steps.record(title.capitalize(), seconds)
    prepared.problem.save(output)
    steps.say()
    steps.say(problem_text(prepared.problem))
    steps.say(f"wrote {printable(output, limit=None)}", "green")
