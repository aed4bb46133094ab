"""What becomes of a model, as texts: imported, lowered, placed, planned, its kernels scheduled.

Modules are printed without their weights, of which `_weights` has the hashes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import tvm
from tvm.target import Target

from benchmarks.replayed.places import NamedCosts, Placement
from tvm_hetero.compiler.build import build
from tvm_hetero.compiler.make_plan import make_plan
from tvm_hetero.kernels import schedule_kernel
from tvm_hetero.kernels.tir.batched import batch_kernel
from tvm_hetero.kernels.tir.implementation_attr import DIRECT, with_implementation
from tvm_hetero.passes.annotate_devices import SCHEDULE
from tvm_hetero.passes.extract_tasks import extract_tasks
from tvm_hetero.passes.kernel import Kernel
from tvm_hetero.passes.lower_to_tasks import LowerToTasks
from tvm_hetero.passes.lowered_main import read_main
from tvm_hetero.passes.split_segments import constant_names, split_segments
from tvm_hetero.pipeline.options import PartitionOptions
from tvm_hetero.pipeline.partition import Partition, partition
from tvm_hetero.plan.format import plan_text
from tvm_hetero.problem.equivalent_devices import equivalence_classes

Texts = Iterator[tuple[str, str]]
# Makes a model; a front end and its input.
Maker = Callable[[], tvm.IRModule]
# Elements that batched kernels compute at once, and seconds for bounds, counted as work.
_AT_ONCE, _LIMIT = 4, 1.0


def of_model(
    name: str,
    make: Maker,
    placements: Sequence[Placement],
    targets: Sequence[dict[str, Any]],
    *,
    weights: bool = True,
    variants: bool = True,
) -> Texts:
    """All of a model but its libraries.

    Parameters
    ----------
    placements : what it is solved for.
    targets : what its kernels are scheduled for.
    weights : whether hashes of its constants are among the texts. Those that were computed hang
        on the machine's vector registers.
    variants : whether kernels for several elements and plain sums are scheduled, too, for the
        first target.
    """
    module = make()
    yield f"imported/{name}", _text(module)
    for placement in placements:
        placed = _placed(module, placement)
        yield f"placed/{name}/{placement.name}", _text(_timeless(placed))
        yield f"plan/{name}/{placement.name}", _plan(placed)
    own = [Target(target) for target in targets]
    lower: tvm.transform.Pass = LowerToTasks(own)
    lowered = lower(module)
    yield f"lowered/{name}", _text(lowered)
    if weights:
        yield f"weights/{name}", _weights(lowered)
    for kernel in extract_tasks(lowered).kernels:
        for target in own:
            where = f"kernel/{name}/{_target_name(target)}/{kernel.name}"
            yield where, _kernel_text(kernel.func, target)
            if variants and target == own[0]:
                yield from _variants(where, kernel, target)


def of_build(name: str, make: Maker, placement: Placement) -> Texts:
    """What a whole build says of itself: plans, and how each kernel is computed."""
    built = build(_placed(make(), placement).module)
    for variant, row in built.variants.items():
        yield f"build/{name}/{variant}", plan_text(row.plan)
    choices = sorted(json.dumps(asdict(choice)) for choice in built.choices or ())
    yield f"build/{name}/choices", "\n".join(choices)


def _placed(module: tvm.IRModule, placement: Placement) -> Partition:
    return partition(
        module,
        placement.platform,
        PartitionOptions(
            objective=placement.objective,
            solver=placement.solver,
            time_limit=_LIMIT,
            cost_model=NamedCosts(),
        ),
    )


def _timeless(placed: Partition) -> tvm.IRModule:
    """The placed module without the time that its solver took."""
    return placed.module.with_attr(SCHEDULE, replace(placed.schedule, seconds=0.0).dumps())


def _plan(placed: Partition) -> str:
    alike = equivalence_classes(placed.problem)
    return plan_text(make_plan(split_segments(placed.module), placed.problem.platform, alike))


def _text(module: tvm.IRModule) -> str:
    return str(module.script(show_meta=False))


def _weights(lowered: tvm.IRModule) -> str:
    rows = []
    for value, name in constant_names(read_main(lowered)).items():
        array = value.numpy()
        digest = hashlib.sha256(array.tobytes()).hexdigest()
        rows.append(f"{name} {array.shape} {array.dtype} {digest}\n")
    return "".join(rows)


def _target_name(target: Target) -> str:
    name = str(target.attrs.get("mcpu") or target.kind.name)
    count = int(target.attrs.get("num-cores") or 1)
    return name if count == 1 else f"{name}-x{count}"


def _variants(where: str, kernel: Kernel, target: Target) -> Texts:
    """The kernel for several elements, and without Winograd's tiles."""
    several = partial(batch_kernel, kernel.func, _AT_ONCE, kernel.constants)
    yield f"{where}-x{_AT_ONCE}", _scheduled(several, target)
    if "conv2d" in kernel.name:
        plain = partial(with_implementation, kernel.func, DIRECT)
        yield f"{where}-{DIRECT}", _scheduled(plain, target)


def _scheduled(make: Callable[[], tvm.tirx.PrimFunc], target: Target) -> str:
    """The text of a kernel; why there is none, if it cannot be had for several elements."""
    try:
        func = make()
    except ValueError as error:
        return f"ValueError: {error}\n"
    return _kernel_text(func, target)


def _kernel_text(func: tvm.tirx.PrimFunc, target: Target) -> str:
    """The scheduled kernel, with what TVM's printer sets apart (code for LLVM), but TVM's version
    there.
    """
    text = str(schedule_kernel(func, target).script(show_meta=True))
    return text.replace(tvm.__version__, "VERSION")
