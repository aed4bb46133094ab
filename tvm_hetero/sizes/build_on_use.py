"""Build one further size of a folder: without measuring, as the sizes that were measured say.

Costs come from those sizes (`sizes.interpolated_costs`), placement and order are those of its size
class (`sizes.size_class`), and so is what runs by default, partition or single device. The artifact
says that its costs are interpolated; ``tvm-hetero refine FOLDER/sizes/SIZE`` measures them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tvm_hetero.artifact.executable import INTERPOLATED, PARTITION, Executable
from tvm_hetero.artifact.manifest import check_files, read_manifest
from tvm_hetero.compiler.build import build
from tvm_hetero.cost_models.protocol import CostModel
from tvm_hetero.cost_models.registry import MEASURING, by_name
from tvm_hetero.errors import ArtifactError, FormatError
from tvm_hetero.executor.choose_variant import Decision, with_decision
from tvm_hetero.frontends.onnx.source import noted_value
from tvm_hetero.passes.annotate_devices import place_tasks
from tvm_hetero.passes.attributes import ESTIMATED
from tvm_hetero.passes.conditional_branches import skip_branches
from tvm_hetero.passes.lowered_main import read_main
from tvm_hetero.passes.verify import verify_placed
from tvm_hetero.pipeline.options import QUICK_SECONDS, PartitionOptions
from tvm_hetero.pipeline.partition import make_problem
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.sizes.axes import Size, size_name
from tvm_hetero.sizes.build import OpenModel, import_size
from tvm_hetero.sizes.folder import (
    SizeFacts,
    artifact_of,
    built_sizes,
    check_model,
    read_size_facts,
    share_equal_weights,
)
from tvm_hetero.sizes.interpolated_costs import InterpolatedCosts
from tvm_hetero.sizes.size_class import class_of, schedule_of_class
from tvm_hetero.solvers import Options, solve

# It computes costs from the platform's figures, of any size.
_COMPUTED = "analytical"


@dataclass(frozen=True)
class MeasuredSize:
    """What is known of a size whose costs are not themselves interpolated.

    `default` is the variant that runs.
    """

    problem: Problem
    schedule: Schedule
    default: str


def build_size(path: Path, size: Size, into: Path) -> Path:
    """Build a size and write its artifact; returns where.

    Parameters
    ----------
    path : the folder whose sizes say what it costs.
    into : the folder that gets it, mostly the same.

    Raises
    ------
    ArtifactError
        If the folder is damaged, the model is not in it, or it cannot be written.
    ModelError
        If the model cannot be of that size.
    """
    facts = read_size_facts(path)
    known = measured_sizes(path, facts)
    nearest = class_of(size, list(known))
    executable = _build(path, facts, size, known, nearest)
    target = artifact_of(into, size)
    executable.save(target)
    if into == path:
        share_equal_weights(path, size)
    return target


def measured_sizes(path: Path, facts: SizeFacts) -> dict[Size, MeasuredSize]:
    """The sizes of a folder whose costs are not themselves interpolated.

    Raises
    ------
    ArtifactError
        If there is none, or one is damaged.
    """
    found = {}
    for size in built_sizes(path, facts):
        place = artifact_of(path, size)
        manifest = read_manifest(place)
        if manifest.get("estimated") != INTERPOLATED:
            found[size] = _read_measured(place, manifest["files"], manifest["default"])
    if not found:
        raise ArtifactError(f"{path}: no size of it was measured; build it again")
    return found


def _read_measured(place: Path, hashes: Mapping[str, str], default: str) -> MeasuredSize:
    names = ("problem.json", "schedule.json")
    check_files(place, {name: hashes[name] for name in names})
    try:
        problem, schedule = (Problem.load(place / names[0]), Schedule.load(place / names[1]))
    except FormatError as error:
        raise ArtifactError(f"{place}: damaged ({error}); build it again") from None
    return MeasuredSize(problem, schedule, default)


def _build(
    path: Path,
    facts: SizeFacts,
    size: Size,
    known: Mapping[Size, MeasuredSize],
    nearest: Size,
) -> Executable:
    like = known[nearest]
    model = _model(path, facts)
    costs = _costs(facts, known, nearest)
    options = PartitionOptions(
        objective=like.problem.objective,
        cost_model=costs,
        plain_sums=facts.settings["plain_sums"],
    )
    platform = like.problem.platform
    prepared = make_problem(import_size(model, facts.open, size), platform, options)
    schedule = schedule_of_class(prepared.problem, like.schedule)
    if schedule is None:
        schedule = solve(prepared.problem, "auto", Options(time_limit=QUICK_SECONDS))
    module = prepared.module
    if costs.name == INTERPOLATED:
        module = module.with_attr(ESTIMATED, INTERPOLATED)
    placed = place_tasks(skip_branches(module), prepared.problem, schedule)
    verify_placed(placed, read_main(placed.placed))
    executable = build(placed)
    chosen = like.default if like.default in executable.variants else PARTITION
    reason = f"as at size {size_name(nearest)}, whose plan it has"
    return with_decision(executable, Decision(chosen, schedule.kind, reason=reason))


def _model(path: Path, facts: SizeFacts) -> OpenModel:
    """The model that the folder keeps."""
    values = {name: noted_value(note) for name, note in facts.settings["values"].items()}
    seed = facts.settings["random_weights"]
    return OpenModel(check_model(path, facts), {}, values, seed, facts.build)


def _costs(facts: SizeFacts, known: Mapping[Size, MeasuredSize], nearest: Size) -> CostModel:
    """What knows the costs of any size."""
    asked = facts.settings["cost_model"]
    if asked == _COMPUTED:
        return by_name(asked)
    # Devices may be named otherwise in a size that was refined elsewhere.
    platform = known[nearest].problem.platform
    problems = [e.problem for e in known.values() if e.problem.platform.names == platform.names]
    return InterpolatedCosts(problems, by_name("profiled-alone" if asked in MEASURING else asked))
