"""Build a model of open dimensions: its first sizes, and what is needed to build the others.

Each size is an ordinary partition of an ordinary module, measured like any other. Of a range the
smallest, the middle and the largest size are built at once; of a list all of it. The others are
built when they are first asked for (`sizes.build_on_use`), from the model, which is kept for it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvm_hetero.artifact.executable import Executable
from tvm_hetero.errors import UsageError
from tvm_hetero.frontends.onnx.importer import from_onnx
from tvm_hetero.frontends.onnx.source import value_note
from tvm_hetero.pipeline.options import PartitionOptions
from tvm_hetero.sizes.axes import Dimension, OpenShapes, Size
from tvm_hetero.sizes.folder import (
    BUILDS,
    SizeFacts,
    artifact_of,
    check_sizes_target,
    save_sizes,
    share_equal_weights,
)
from tvm_hetero.sizes.model_files import copy_model, hash_model
from tvm_hetero.sizes.read_axes import read_axes

if TYPE_CHECKING:
    import tvm

    from tvm_hetero.platform.model import Platform

# Makes an executable of a size and its module.
SizeMaker = Callable[[Size, "tvm.IRModule"], Executable]


@dataclass(frozen=True)
class OpenModel:
    """A model's file and what is asked of its dimensions.

    Attributes
    ----------
    path : of the ONNX file.
    shapes : of inputs: for each dimension a number, a ``range`` or a list of sizes.
    values : of inputs that are fixed (see `from_onnx`).
    random_weights : a seed, for random ones in the place of the model's.
    build : which sizes are built on use, one of `BUILDS`.
    """

    path: Path
    shapes: Mapping[str, Sequence[Dimension]]
    values: Mapping[str, Any] = field(default_factory=dict)
    random_weights: int | None = None
    build: str = "range"

    def __post_init__(self) -> None:
        if self.build not in BUILDS:
            raise UsageError(f"build {self.build!r}: expected one of {', '.join(BUILDS)}")


def partition_sizes(
    model: OpenModel,
    platform: Platform | None,
    path: str | os.PathLike[str],
    options: PartitionOptions = PartitionOptions(),
    *,
    measure: bool = True,
) -> SizeFacts:
    """Partition and compile a model for the first sizes of a range, and write the folder.

    Parameters
    ----------
    platform : None: this machine, for latency as teams of cores
        (`tvm_hetero.pipeline.divisions.division_here`).
    path : the folder to write.
    options : of each size.
    measure : whether plan and best single device are run, to keep the quicker one.

    Raises
    ------
    ModelError
        If the model is refused.
    UsageError
        If the shapes do not fit the model, a batch is asked for, or `path` is there and nothing of
        ours.
    """
    from tvm_hetero.compiler.build import build
    from tvm_hetero.executor.choose_variant import decide
    from tvm_hetero.pipeline.divisions import division_here
    from tvm_hetero.pipeline.partition import partition

    place = platform or division_here(options).detect()

    def make(_: Size, module: tvm.IRModule) -> Executable:
        executable = build(partition(module, place, options).placed)
        return decide(executable) if measure else executable

    return make_sizes(model, Path(path), options, make)


def make_sizes(
    model: OpenModel, path: Path, options: PartitionOptions, make: SizeMaker
) -> SizeFacts:
    """Build the first sizes by `make`, and write the folder (see `partition_sizes`)."""
    facts = size_facts(model, options)
    check_sizes_target(path)
    sizes = {size: make(size, import_size(model, facts.open, size))
             for size in facts.open.first_sizes}  # fmt: skip

    def write(folder: Path) -> None:
        for size, executable in sizes.items():
            executable.save(artifact_of(folder, size))
            share_equal_weights(folder, size)
        if facts.model:
            copy_model(model.path, folder)

    save_sizes(path, facts, write)
    return facts


def size_facts(model: OpenModel, options: PartitionOptions) -> SizeFacts:
    """What the folder of a model will be; see `partition_sizes` for what is refused."""
    if options.objective.batch != 1:
        raise UsageError(
            f"batch {options.objective.batch}: with open dimensions a batch is one of them, such "
            "as x=1..8x3x224x224; leave --batch out"
        )
    if options.probabilities:
        raise UsageError(
            "probabilities of branches are for one size; leave them out, or give one shape"
        )
    if options.precision != "float32":
        raise UsageError(f"precision {options.precision} is for one size; give one shape")
    asked = options.cost_model
    kept = model.build != "never"
    return SizeFacts(
        open=read_axes(model.path, model.shapes, model.values),
        build=model.build,
        settings={
            "cost_model": asked if isinstance(asked, str) else asked.name,
            "plain_sums": options.plain_sums,
            "random_weights": None if model.random_weights is None else int(model.random_weights),
            "values": {name: value_note(value) for name, value in model.values.items()},
        },
        model=model.path.name if kept else "",
        files=hash_model(model.path) if kept else {},
    )


def import_size(model: OpenModel, inputs: OpenShapes, size: Size) -> tvm.IRModule:
    """The module of one size, which says of which file it is."""
    shapes = inputs.shapes_at(size)
    return from_onnx(
        model.path, shapes=shapes, values=model.values, random_weights=model.random_weights
    )
