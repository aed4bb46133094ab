"""The steps that decide which tasks are computed in bfloat16.

Kernels in bfloat16 are measured beside those of float32, on each device. Tasks whose kernel is
quicker so, each on the device where it is quickest, may be chosen: all of them (``bfloat16``), or
those that gain the most within an error (``auto``, `tvm_hetero.pipeline.precision.choose_tasks`).
Tensors that only these read may be rounded by who makes them, where both together are quicker so
(`tvm_hetero.pipeline.precision.choose_edges`): that changes no number. The module is then rewritten
(`tvm_hetero.passes.narrow_tasks`), and says what is promised of it.

A CPU that lacks the instruction multiplies rounded numbers by other ones, which takes longer than
float32 does: its costs say so, and the scheduler gives it the other tasks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tvm_hetero.cost_models.registry import ESTIMATING, MEASURING
from tvm_hetero.devices.target import device_target
from tvm_hetero.errors import UsageError
from tvm_hetero.kernels.narrow_kernel import computes_bfloat16
from tvm_hetero.passes.byte_tasks import note_byte_tasks
from tvm_hetero.passes.extract_tasks import extract_tasks
from tvm_hetero.passes.io_tasks import host_device
from tvm_hetero.passes.kernel import Kernel
from tvm_hetero.passes.lowered_main import original_position
from tvm_hetero.passes.narrow_edges import (
    Form,
    NarrowEdge,
    edge_forms,
    find_forms,
    form_of,
    usable_edges,
)
from tvm_hetero.passes.narrow_tasks import (
    as_kernel,
    is_narrow,
    narrow_kernels,
    narrow_name,
    narrow_tasks,
)
from tvm_hetero.passes.precision_promise import with_promise
from tvm_hetero.passes.task_graph import task_graph
from tvm_hetero.pipeline.job import Job
from tvm_hetero.pipeline.precision.calibrated_network import CalibratedNetwork
from tvm_hetero.pipeline.precision.calibration_inputs import (
    calibration_inputs,
    check_inputs,
    sound_kinds,
)
from tvm_hetero.pipeline.precision.choose_edges import choose_edges
from tvm_hetero.pipeline.precision.choose_tasks import ChosenTasks, choose_tasks
from tvm_hetero.pipeline.precision.network_runner import NetworkRunner
from tvm_hetero.pipeline.precision.output_error import metric_name
from tvm_hetero.pipeline.precision.rare_errors import CONFIDENCE
from tvm_hetero.platform.devices import Device
from tvm_hetero.problem.implementation_choice import Timing, beats
from tvm_hetero.problem.precision_promise import BFLOAT16, FLOAT32, INT8, PrecisionPromise


def find_narrow_kernels(job: Job) -> None:
    """Make the kernels in bfloat16 that there can be, where they are asked for.

    Raises
    ------
    UsageError
        If the model, the cost model or a device of the platform is not for that.
    """
    if job.options.precision in (FLOAT32, INT8):
        return
    refuse_unmeasurable(job, job.options.precision)
    for inputs in job.options.calibration:
        check_inputs(job.tasks.main, inputs)
    job.unable = _without_instruction(job)
    if job.unable and job.options.precision == BFLOAT16:
        raise UsageError(
            f"precision bfloat16: {job.unable}; change the platform, or take auto (which stays in "
            "float32 there) or float32"
        )
    if not job.unable:
        job.forms = find_forms(job.tasks, narrow_kernels(job.tasks))


def refuse_unmeasurable(job: Job, precision: str) -> None:
    """Refuse a job in which no other precision than float32 can be measured.

    Raises
    ------
    UsageError
        Says what of the cost model, the platform or the module is in the way.
    """
    asked = f"precision {precision}"
    if job.measuring is None or job.model.name == ESTIMATING:
        raise UsageError(
            f"{asked}: which tasks gain by it is measured, and the cost model {job.model.name!r} "
            f"measures nothing; take one of {', '.join(sorted(MEASURING))}"
        )
    if len({device.node for device in job.platform.devices}) > 1:
        raise UsageError(
            f"{asked}: errors are measured on one machine, and the platform has several nodes; "
            "take float32 for it"
        )
    if job.tasks.states:
        raise UsageError(
            f"{asked}: the model keeps states from step to step, so one step's error says little; "
            "of a decoder give the type of its weights (--weights)"
        )
    if any(is_narrow(kernel.name) for kernel in job.tasks.kernels):
        raise UsageError(
            f"{asked}: tasks of this module are in bfloat16 already; begin with the model itself"
        )


def _without_instruction(job: Job) -> str:
    """Which device is not for bfloat16; empty if all are CPUs, of which one multiplies it."""
    devices = [device for device in job.platform.devices if device.target is not None]
    without = [device for device in devices if not computes_bfloat16(device_target(device))]
    others = [device for device in without if device.kind != "llvm"]
    if others:
        return f"device {others[0].name!r} ({others[0].kind}) has no kernels in bfloat16"
    if not devices or len(without) < len(devices):
        return ""
    names = ", ".join(f"{device.name!r} ({_processor(device)})" for device in without)
    return f"no device has an instruction for products of bfloat16: {names}"


def _processor(device: Device) -> str:
    target = device.target or {}
    return str(target.get("mcpu", target.get("kind")))


def kernels_to_measure(job: Job) -> Sequence[Kernel]:
    """All kernels of the tasks, those in bfloat16, and those of edges that may be in it."""
    own, forms = job.tasks.kernels, job.forms
    narrow = [(kernel.name, Form(narrow=True)) for kernel in own if kernel.name in forms.narrow]
    others = edge_forms(forms, tuple(job.tasks.kernel_of.values()))
    return [*own, *(as_kernel(forms, name, form) for name, form in (*narrow, *others))]


def choose_precision(job: Job) -> None:
    """Choose the tasks that are computed in bfloat16, and write them into the module."""
    if job.options.precision == FLOAT32:
        return
    if job.options.precision == INT8:
        job.module = note_byte_tasks(job.module, job.tasks)
        return
    times = _times(job)
    gains = _gains(job, times)
    promise = _promise(job, gains) if gains else PrecisionPromise(
        job.options.precision, job.options.largest_error, reason=_reason(job)
    )  # fmt: skip
    positions = {original_position(task) for task in promise.tasks}
    edges = _edges(job, times, positions)
    seconds = [_seconds(job, times, *how) for how in ((set(), []), (positions, edges))]
    job.module = narrow_tasks(job.module, job.forms, promise.tasks, edges)
    job.tasks = extract_tasks(job.module)
    job.graph = task_graph(job.tasks, job.platform, job.options.objective.batch)
    ids = job.tasks.main.task_ids
    tasks = {ids[original_position(task)]: error for task, error in promise.tasks.items()}
    promise = replace(promise, tasks=tasks, seconds_float32=seconds[0], seconds=seconds[1])
    job.module = with_promise(job.module, promise)


_NOTHING = "no task outside of branches is a product or convolution of float32 by constants"
_NOT_QUICKER = "no task is quicker in bfloat16"


def _reason(job: Job) -> str:
    """Why nothing can be in bfloat16."""
    return job.unable or (_NOT_QUICKER if job.forms.narrow else _NOTHING)


Times = Mapping[str, Mapping[str, Timing]]


def _times(job: Job) -> Times:
    """What each kernel takes on each device, as it is computed there."""
    times: dict[str, dict[str, Timing]] = {}
    for choice in job.measuring.choices() if job.measuring is not None else ():
        if choice.timing is not None:
            times.setdefault(choice.kernel, {})[choice.device] = choice.timing
    return times


def _quickest(row: Mapping[str, Timing]) -> str:
    return min(row, key=lambda device: row[device].seconds)


def _gains(job: Job, times: Times) -> dict[str, float]:
    """The seconds that each task gains in bfloat16, where it gains any."""
    gains = {}
    for task, kernel in job.tasks.kernel_of.items():
        row, other = times.get(kernel, {}), times.get(narrow_name(kernel), {})
        if kernel not in job.forms.narrow or not row or not other:
            continue
        wide, short = row[_quickest(row)], other[_quickest(other)]
        if beats(short, wide):
            gains[task] = wide.seconds - short.seconds
    return gains


def _edges(job: Job, times: Times, narrow: set[int]) -> list[NarrowEdge]:
    """The edges that are in bfloat16, some tasks being so."""
    kernel_of = tuple(job.tasks.kernel_of.values())

    def seconds(task: int, *, reads: bool, writes: bool) -> float:
        row = times.get(Form(task in narrow, reads, writes).name(kernel_of[task]), {})
        return row[_quickest(row)].seconds if row else math.inf

    return choose_edges(usable_edges(job.forms, kernel_of, narrow), seconds)


def _seconds(job: Job, times: Times, narrow: set[int], edges: Sequence[NarrowEdge]) -> float | None:
    """What all tasks take, each by itself on its quickest device, some of them in bfloat16."""
    rows = [
        times.get(form_of(position, narrow, edges).name(kernel), {})
        for position, kernel in enumerate(job.tasks.kernel_of.values())
    ]
    if not all(rows):
        return None
    return math.fsum(row[_quickest(row)].seconds for row in rows)


def _promise(job: Job, gains: Mapping[str, float]) -> PrecisionPromise:
    """Choose among tasks that gain, and measure what they do."""
    options = job.options
    device = job.platform.device(host_device(job.platform))
    runner = NetworkRunner(job.tasks, job.forms.narrow, device_target(device))
    main, given, seed = job.tasks.main, options.calibration, options.seed
    kinds = [] if given else sound_kinds(main, seed, runner.outputs)
    promised = options.largest_error is not None
    checks = options.checks if promised else len(kinds)
    inputs, held_out = calibration_inputs(main, given, seed, kinds, checks)
    network = CalibratedNetwork(runner, inputs, held_out, options.metric, skips=not given)
    promise = PrecisionPromise(
        options.precision,
        options.largest_error,
        metric_name(options.metric),
        inputs=len(inputs),
        seed=None if given else seed,
        kinds=tuple(kinds),
    )
    if options.largest_error is not None:
        return _within(promise, choose_tasks(network, gains, options.largest_error, _tell(job)))
    measured, checked = network.error(gains), network.check(gains, math.inf)
    others = checked.worst
    worst = max(measured, others or 0.0)
    if not math.isfinite(worst):
        raise UsageError(
            f"precision bfloat16: outputs have an error ({promise.metric}) of {worst:g}, as "
            "where they are no numbers any more; take auto, which leaves such tasks in float32"
        )
    return replace(
        promise,
        tasks=dict.fromkeys(gains),
        measured=measured,
        held_out=others,
        held_out_inputs=len(checked.errors),
    )


def _within(promise: PrecisionPromise, found: ChosenTasks) -> PrecisionPromise:
    return replace(
        promise,
        tasks=dict(found.alone),
        predicted=found.predicted,
        measured=found.measured,
        held_out=found.held_out,
        held_out_inputs=len(found.checked.errors),
        rare=found.rare,
        exceeding=found.exceeding,
        confidence=CONFIDENCE,
        gain_bound=found.gain_bound,
    )


def _tell(job: Job) -> Any:
    def tell(done: int, total: int) -> None:
        if job.progress is not None:
            job.progress("errors of single tasks in bfloat16", done, total)

    return tell
