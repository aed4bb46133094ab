"""``tvm-hetero partition`` with open dimensions: an artifact for each of the first sizes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tvm_hetero.cli.shared.console import Steps, chart_width
from tvm_hetero.cli.shared.import_model import RELAY_SUFFIXES
from tvm_hetero.cli.shared.partition_steps import (
    compile_executable,
    partition_json,
    partition_module,
    say_estimates,
)
from tvm_hetero.errors import UsageError

if TYPE_CHECKING:
    import tvm

    from tvm_hetero.artifact.executable import Executable
    from tvm_hetero.pipeline.options import PartitionOptions
    from tvm_hetero.pipeline.partition import Partition
    from tvm_hetero.platform.model import Platform
    from tvm_hetero.sizes.axes import Size
    from tvm_hetero.sizes.build import OpenModel
    from tvm_hetero.sizes.folder import SizeFacts


def refuse_closed(model: Path, **others: object) -> None:
    """Refuse what has no open dimensions: other models than ONNX files, and some options.

    Raises
    ------
    UsageError
        If there is one.
    """
    if model.is_dir() or model.suffix in RELAY_SUFFIXES:
        raise UsageError(f"--shape with several sizes is for ONNX models; {model} is none")
    for name, value in others.items():
        if value:
            option = name.replace("_", "-")
            raise UsageError(f"--{option} is for one size; leave it out, or give one shape")


def partition_open_model(
    steps: Steps,
    model: OpenModel,
    output: Path,
    platform: Platform,
    how: PartitionOptions,
    *,
    measure: bool,
    json_output: bool,
) -> None:
    """Steps: partition and compile the first sizes of a model, and write its folder."""
    from tvm_hetero.report.schedule.text import schedule_text
    from tvm_hetero.sizes.axes import size_name
    from tvm_hetero.sizes.build import make_sizes
    from tvm_hetero.sizes.folder import artifact_of
    from tvm_hetero.util.untrusted_names import printable

    made: dict[Size, tuple[Partition, Executable]] = {}

    def make(size: Size, module: tvm.IRModule) -> Executable:
        steps.head(f"Size {size_name(size)}, {how.objective.kind}")
        result = partition_module(steps, module, platform, how)
        executable = compile_executable(steps, result, measure=measure)
        made[size] = result, executable
        return executable

    facts = make_sizes(model, output, how, make)
    if json_output:
        sizes = {
            size_name(size): partition_json(*both, steps.seconds, artifact_of(output, size))
            for size, both in made.items()
        }
        typer.echo(json.dumps({"artifact": str(output), "build": facts.build, "sizes": sizes}))
        return
    for size, (result, executable) in made.items():
        steps.head(f"Plan of size {size_name(size)}")
        steps.say(schedule_text(result.schedule, result.problem, chart_width()))
        say_estimates(steps, executable, artifact_of(output, size))
    steps.head("Sizes")
    steps.say(sizes_table(facts, output))
    steps.say(f"wrote {printable(output, limit=None)}", "green")


def sizes_table(facts: SizeFacts, path: Path) -> str:
    """A table of what a folder serves, and of the sizes that were built."""
    from tvm_hetero.artifact.manifest import read_manifest
    from tvm_hetero.sizes.axes import size_name
    from tvm_hetero.sizes.folder import artifact_of, built_sizes
    from tvm_hetero.util.text_tables import format_table
    from tvm_hetero.util.untrusted_names import printable

    built_on_use = {"never": "none", "range": "those of the range", "any": "any"}[facts.build]
    rows: list[list[object]] = [["serves", facts.open.described], ["built on use", built_on_use]]
    for size in built_sizes(path, facts):
        manifest = read_manifest(artifact_of(path, size))
        rows.append([f"size {size_name(size)}", _size_text(manifest)])
    return format_table(["artifact", printable(path, limit=None)], rows)


def _size_text(manifest: Any) -> str:
    """What runs at a size, and how its costs are known."""
    from tvm_hetero.util.untrusted_names import printable

    estimated = manifest.get("estimated")
    costs = f"costs estimated ({printable(estimated)})" if estimated else "costs as asked for"
    return f"{printable(manifest['default'])} runs, {costs}"
