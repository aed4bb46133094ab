"""``tvm-hetero partition FOLDER``: a decoder from Hugging Face, its step and its prefill."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tvm_hetero.cli.shared.console import Steps, chart_width
from tvm_hetero.cli.shared.partition_steps import (
    compile_executable,
    partition_json,
    partition_module,
    say_kernels,
)
from tvm_hetero.errors import UsageError

if TYPE_CHECKING:
    import tvm

    from tvm_hetero.artifact.executable import Executable
    from tvm_hetero.decoders.build import DecoderOptions
    from tvm_hetero.decoders.folder import DecoderFacts
    from tvm_hetero.pipeline.options import PartitionOptions
    from tvm_hetero.pipeline.partition import Partition
    from tvm_hetero.platform.model import Platform
    from tvm_hetero.problem.objective_kinds import Objective


def decoder_options(
    folder: Path, asked: Mapping[str, Any], batch: int, **onnx_only: object
) -> DecoderOptions:
    """What the options on the command line ask for.

    Raises
    ------
    UsageError
        If one is for ONNX models, is out of range, or the folder is no model's.
    """
    from tvm_hetero.decoders.build import DecoderOptions

    for name, value in onnx_only.items():
        if value:
            option = name.replace("_", "-")
            raise UsageError(f"--{option} is for ONNX models, and {folder} is a folder")
    if not (folder / "config.json").is_file():
        raise UsageError(
            f"{folder}: is a folder without config.json; expected an ONNX file, or the folder of a "
            "Hugging Face model"
        )
    given = {name: value for name, value in asked.items() if value is not None}
    try:
        return DecoderOptions(batch=batch, **given)
    except UsageError as error:
        raise UsageError(f"--{error}") from None


def partition_decoder(
    steps: Steps,
    folder: Path,
    output: Path,
    platform: Platform,
    options: DecoderOptions,
    how: PartitionOptions,
    *,
    measure: bool,
    json_output: bool,
) -> None:
    """Steps: partition and compile both graphs of a decoder, and write its folder.

    Parameters
    ----------
    how : each part is partitioned like that, for a batch of its own.
    """
    from tvm_hetero.decoders.build import make_decoder
    from tvm_hetero.report.schedule.text import schedule_text
    from tvm_hetero.util.text_tables import printable

    kind = how.objective.kind
    made: dict[str, tuple[Partition, Executable]] = {}

    def make(name: str, module: tvm.IRModule, goal: Objective) -> Executable:
        steps.head(f"{name.capitalize()}, {kind}, batch {goal.batch}")
        result = partition_module(steps, module, platform, replace(how, objective=goal))
        executable = compile_executable(steps, result, measure=measure)
        made[name] = result, executable
        return executable

    facts = make_decoder(folder, output, options, kind, make, len(platform.devices))
    if json_output:
        parts = {
            name: partition_json(*both, steps.seconds, output / name) for name, both in made.items()
        }
        typer.echo(json.dumps({"decoder": str(output), **asdict(facts), "parts": parts}))
        return
    for name, (result, _) in made.items():
        steps.head(f"Plan of the {name}")
        steps.say(schedule_text(result.schedule, result.problem, chart_width()))
        say_kernels(steps, result, output / name)
    steps.head("Decoder")
    steps.say(facts_text(facts, output))
    if facts.chunk == 1 and options.chunk != 1:
        steps.say("prompts go in token by token: the plans keep caches in other memories", "yellow")
    steps.say(f"wrote {printable(output)}", "green")


def facts_text(facts: DecoderFacts, path: Path) -> str:
    """A table of what a decoder is."""
    from tvm_hetero.util.text_tables import printable, table

    slots = f"{facts.groups} group{'s' * (facts.groups > 1)} of {facts.batch}"
    rows: list[list[object]] = [
        ["family", printable(facts.family)],
        ["length", f"{facts.length} tokens"],
        ["sequences at once", slots],
        ["caches", printable(facts.cache)],
        ["prefill", f"{facts.chunk} tokens" if facts.chunk > 1 else "none: by steps"],
        ["vocabulary", f"{facts.vocabulary} tokens"],
        ["ends at", ", ".join(map(str, facts.eos)) or "no token"],
        ["weights", f"{printable(facts.weights)}, layers in {facts.shards} part(s)"],
    ]
    rows += [["model", printable(f"{k}: {v}")] for k, v in facts.source.items()]
    return table(["decoder", printable(path)], rows)
