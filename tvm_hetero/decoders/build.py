"""Build a decoder of a Hugging Face folder: a plan for steps, a plan for prefills, one folder.

Both are ordinary partitions of ordinary modules; the prefill is of one sequence, the step of
`batch` at once. They use the same caches, so each cache must be in the same memory in both plans.
On CPUs that is main memory anyhow. Where a device with a memory of its own keeps caches that the
other plan has elsewhere, the decoder goes without prefill: prompts go in by steps (chunk 1).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvm_hetero.artifact.executable import Executable
from tvm_hetero.decoders.folder import PREFILL, STEP, DecoderFacts, check_target, save_decoder
from tvm_hetero.errors import UsageError
from tvm_hetero.executor.batches import split_element
from tvm_hetero.passes.attributes import STATE_SETS
from tvm_hetero.problem.objective_kinds import Objective
from tvm_hetero.util.quote import quote

if TYPE_CHECKING:
    import tvm

    from tvm_hetero.cost_models.protocol import CostModel
    from tvm_hetero.platform.model import Platform

WEIGHTS = ("float32", "bfloat16", "int8", "int4")
CACHES = ("float32", "bfloat16", "float16")
# Where nothing is asked for. A cache has a row for every token, so a model that was made for a
# hundred thousand tokens is not given that many.
LENGTH, CHUNK = 1024, 32

# Makes an executable of a part's name, its module and what to solve it for.
Maker = Callable[[str, "tvm.IRModule", Objective], Executable]


@dataclass(frozen=True)
class DecoderOptions:
    """What a decoder shall be.

    Attributes
    ----------
    batch : sequences that are stepped together.
    length : rows of the caches; None: what the model was made for, at most `LENGTH`.
    chunk : tokens of a prefill; None: `CHUNK`, or fewer in short caches; 1: none.
    groups : groups of `batch` slots; None: see `usual_groups`.
    shards : parts of each layer's attention and feed-forward network.
    weights : their type, one of `WEIGHTS`.
    cache : the type of keys and values, one of `CACHES`.
    """

    batch: int = 1
    length: int | None = None
    chunk: int | None = None
    groups: int | None = None
    shards: int = 1
    weights: str = "float32"
    cache: str = "float32"

    def __post_init__(self) -> None:
        for name in ("batch", "length", "chunk", "groups", "shards"):
            value = getattr(self, name)
            if value is None and name not in ("batch", "shards"):
                continue
            if not isinstance(value, Integral):
                raise UsageError(f"{name} {quote(value, 60)}: expected an integer, 1 or more")
            if value < 1:
                raise UsageError(f"{name} {value}: expected 1 or more")
            object.__setattr__(self, name, int(value))  # NumPy's too, which JSON does not know
        for name, known in (("weights", WEIGHTS), ("cache", CACHES)):
            if getattr(self, name) not in known:
                given = getattr(self, name)
                raise UsageError(f"{name} {given!r}: expected one of {', '.join(known)}")


def build_decoder(
    folder: Path,
    platform: Platform | None,
    path: Path,
    options: DecoderOptions = DecoderOptions(),
    *,
    objective: str = "latency",
    solver: str = "auto",
    time_limit: float = 5.0,
    seed: int = 0,
    cost_model: str | CostModel = "profiled",
    measure: bool = True,
) -> DecoderFacts:
    """Partition and compile a decoder, and write it as a folder.

    Parameters
    ----------
    folder : of a Hugging Face model: ``config.json`` and safetensors.
    platform : None: this machine, for latency as teams of cores
        (`tvm_hetero.pipeline.divisions.division_here`).
    path : the folder to write.
    objective, solver, time_limit, seed, cost_model : see `tvm_hetero.pipeline.partition.partition`.
    measure : whether plan and best single device are run, to keep the quicker one.

    Raises
    ------
    ModelError
        If the folder is none, or of a model that we do not compute.
    UsageError
        If an option does not fit the model, or `path` is there and nothing of ours.
    """
    from tvm_hetero.compiler.build import build
    from tvm_hetero.executor.choose_variant import decide
    from tvm_hetero.pipeline.divisions import division_here
    from tvm_hetero.pipeline.options import PartitionOptions
    from tvm_hetero.pipeline.partition import partition

    whole = Objective(objective, batch=options.batch)  # type: ignore[arg-type]
    how = PartitionOptions(
        objective=whole, solver=solver, time_limit=time_limit, seed=seed, cost_model=cost_model
    )
    place = platform or division_here(how).detect()

    def make(_: str, module: tvm.IRModule, goal: Objective) -> Executable:
        placed = partition(module, place, replace(how, objective=goal))
        executable = build(placed.placed)
        return decide(executable) if measure else executable

    return make_decoder(folder, path, options, objective, make, len(place.devices))


def make_decoder(
    folder: Path, path: Path, options: DecoderOptions, kind: str, make: Maker, devices: int = 1
) -> DecoderFacts:
    """As `build_decoder`, with `make` in the place of what builds a module for so many devices."""
    from tvm_hetero.frontends.huggingface import from_huggingface

    check_target(path)
    groups = options.groups or usual_groups(kind, devices)
    facts = decoder_facts(folder, replace(options, groups=groups))

    def part(name: str, tokens: int, batch: int) -> Executable:
        module = from_huggingface(
            folder, tokens=tokens, length=facts.length, shards=facts.shards,
            weights=facts.weights, cache=facts.cache,
        )  # fmt: skip
        # Caches of all groups are there at once, which is more than those of one batch.
        sets = groups if name == STEP else 1
        module["main"] = module["main"].with_attr(STATE_SETS, sets)
        return make(name, module, Objective(kind, batch=batch))  # type: ignore[arg-type]

    executables = {STEP: part(STEP, 1, facts.batch)}
    if facts.chunk > 1:
        executables[PREFILL] = part(PREFILL, facts.chunk, 1)
        if not _alike(executables[STEP], executables[PREFILL]):
            del executables[PREFILL]
            facts = replace(facts, chunk=1)
    save_decoder(path, facts, {name: each.save for name, each in executables.items()}, folder)
    return facts


def usual_groups(kind: str, devices: int) -> int:
    """Groups that keep so many devices busy with a plan for an objective.

    A plan for latency has all of them work on one batch. In a pipeline each has another batch, and
    one more batch is on its way from the last device to the first, its next tokens being chosen.
    """
    return devices + 1 if kind == "throughput" and devices > 1 else 1


def decoder_facts(folder: Path, options: DecoderOptions) -> DecoderFacts:
    """What the decoder of a folder will be.

    Raises
    ------
    ModelError
        If the folder is none, or of a model that we do not compute.
    UsageError
        If an option does not fit the model.
    """
    from tvm_hetero.frontends.huggingface.config import read_config

    config = read_config(folder)
    length = min(config.longest, LENGTH) if options.length is None else options.length
    chunk = min(CHUNK, length) if options.chunk is None else options.chunk
    if length > config.longest:
        raise UsageError(f"length {length}: the model was made for {config.longest} tokens at most")
    if chunk > length:
        raise UsageError(f"chunk {chunk}: there are {length} rows in the caches (length)")
    return DecoderFacts(
        family=config.family,
        length=length,
        batch=options.batch,
        groups=options.groups or 1,
        chunk=chunk,
        vocabulary=config.vocabulary,
        eos=tuple(token for token in config.end if token < config.vocabulary),
        weights=options.weights,
        cache=options.cache,
        shards=options.shards,
        source=dict(config.source),
    )


def _alike(step: Executable, prefill: Executable) -> bool:
    """Whether both plans have every cache in the same memory."""
    homes = _state_homes(prefill)
    return all(homes[name] == place for name, place in _state_homes(step).items())


def _state_homes(executable: Executable) -> dict[str, set[Any]]:
    """The memories of each state's elements."""
    plan = executable.variants[executable.default].plan
    homes: dict[str, set[Any]] = {}
    for row in plan.inputs:
        if row.is_state:
            memory = plan.device_of_slot(row.slot)
            name, _ = split_element(row.name, plan.batch)
            homes.setdefault(name, set()).add((memory.dl_type, memory.dl_id))
    return homes
