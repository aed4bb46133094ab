"""From an annotated module to what each device does, step by step.

A *segment* is a run of kernel calls on one device that nothing outside has to interrupt; where
runs have to be cut is worked out in `tvm_hetero.passes.form_steps`. A *copy* moves a tensor between
two memories. Devices in the machine's main memory share it, so of the copies that the module
writes only those are left that lead into a memory where the tensor is not already.

A copy is done by the compute worker of an end that is busy meanwhile (rule 4 of the execution
model), else by a worker of the link's own, since copies on different links do not disturb each
other (rule 3).

All constants become inputs of segments, so that weights are kept once, in a file of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import tvm

from tvm_hetero.errors import ModelError
from tvm_hetero.passes.attributes import INPUT_NAMES, OUTPUT_NAMES
from tvm_hetero.passes.emit_views import device_position
from tvm_hetero.passes.form_steps import StepItem, form_steps
from tvm_hetero.passes.io_tasks import is_host
from tvm_hetero.passes.kernel_symbols import kernel_symbol, plain_kernel
from tvm_hetero.passes.lowered_main import (
    KernelCall,
    LoweredMain,
    TensorSource,
    is_copy,
    names_of,
    original_position,
    read_main,
    static_shape,
)
from tvm_hetero.passes.placed_model import PlacedModel
from tvm_hetero.passes.verify import verify_placed
from tvm_hetero.plan.element_names import plain_task
from tvm_hetero.platform.model import Platform


@dataclass(frozen=True)
class Segment:
    """Consecutive calls on one device.

    Attributes
    ----------
    name : unique; device : its position in the platform.
    calls : positions in ``main``.
    ins : tensors read from outside; constants : the constants that are read.
    outs : tensors made here and wanted outside: read, copied away, or results of the model.
    """

    name: str
    device: int
    calls: tuple[int, ...]
    ins: tuple[TensorSource, ...]
    constants: tuple[Any, ...]
    outs: tuple[TensorSource, ...]


@dataclass(frozen=True)
class SegmentCopy:
    """A tensor goes from device `near` to device `far`.

    `worker` is the device whose compute worker does it; None: a worker of the link's own.
    """

    root: TensorSource
    near: int
    far: int
    worker: int | None


@dataclass(frozen=True)
class Split:
    """A module cut into segments.

    Attributes
    ----------
    steps : segments and copies; each worker does its own in this order.
    symbols : for each call the name of its kernel in the device's library.
    constants : the weights, by names that do not depend on the placement.
    input_home : for each input the device where it arrives.
    results : for each result of the model its root, the device where it is left, and its shape: a
        result that is a view has the elements of its root, in order.
    modules : for each device in use, the kernels that are called there.
    """

    main: LoweredMain
    batch: int
    steps: tuple[Segment | SegmentCopy, ...]
    symbols: tuple[str, ...]
    constants: Mapping[str, Any]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    input_home: tuple[int, ...]
    results: tuple[tuple[TensorSource, int, tuple[int, ...]], ...]
    modules: Mapping[int, tvm.IRModule] = field(default_factory=dict)

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The steps that compute."""
        return tuple(step for step in self.steps if isinstance(step, Segment))

    @property
    def copies(self) -> tuple[SegmentCopy, ...]:
        """The steps that copy."""
        return tuple(step for step in self.steps if isinstance(step, SegmentCopy))


def split_segments(model: tvm.IRModule | PlacedModel) -> Split:
    """Cut a placed model, or an annotated module, into segments and copies.

    Raises
    ------
    UsageError
        If the module is not annotated.
    ModelError
        If an output of the model is a constant, or two kernels would have one symbol.
    PassFault
        If the module does not say what its schedule says.
    """
    model = PlacedModel.of(model)
    mod, problem = model.placed, model.problem
    main = read_main(mod)
    verify_placed(model, main)
    vdevices = list(mod.global_infos["vdevice"])
    device_of = [device_position(call.outputs[0], vdevices) for call in main.calls]
    input_home = tuple(device_position(param.ty, vdevices) for param in main.params)
    results = tuple(_result(main, i, vdevices) for i in range(len(main.results())))
    order = _in_order(main, problem.platform, device_of, input_home, vdevices)
    symbols = tuple(kernel_symbol(mod[call.kernel]) for call in main.calls)
    return Split(
        main=main,
        batch=problem.batch,
        steps=_steps(main, problem.platform, order, device_of, results),
        symbols=symbols,
        constants={name: value for value, name in constant_names(main).items()},
        inputs=tuple(names_of(mod, INPUT_NAMES, len(main.params), "input")),
        outputs=tuple(names_of(mod, OUTPUT_NAMES, len(main.results()), "output")),
        input_home=input_home,
        results=results,
        modules=_modules(mod, main, device_of, symbols),
    )


def memory_of(platform: Platform, device: int) -> int:
    """The memory of a device: -1 for main memory, else the device's own number."""
    return -1 if is_host(platform.devices[device]) else device


def _in_order(
    main: LoweredMain,
    platform: Platform,
    device_of: Sequence[int],
    input_home: Sequence[int],
    vdevices: Sequence[Any],
) -> list[int | SegmentCopy]:
    """Calls (by position) and the copies that are needed, in the order of `main`."""
    computing = set(device_of)
    there = {
        (TensorSource(None, i), memory_of(platform, home)) for i, home in enumerate(input_home)
    }
    there |= {
        (TensorSource(call.position, k), memory_of(platform, device_of[call.position]))
        for call in main.calls
        for k in range(len(call.outputs))
    }
    order: list[int | SegmentCopy] = []
    for item in _calls_and_copies(main, vdevices):
        if isinstance(item, int):
            order.append(item)
            continue
        root, near, far = item
        place = (root, memory_of(platform, far))
        if place not in there:
            there.add(place)
            busy = [
                device
                for device in (far, near)
                if device in computing and not platform.devices[device].overlap
            ]
            order.append(SegmentCopy(root, near, far, busy[0] if busy else None))
    return order


def _calls_and_copies(
    main: LoweredMain, vdevices: Sequence[Any]
) -> list[int | tuple[TensorSource, int, int]]:
    """What `main` does, in its order: calls, and copies as (root, from, to)."""
    made = {call.var: call.position for call in main.calls}
    items: list[int | tuple[TensorSource, int, int]] = []
    for block in main.function.body.blocks:
        for binding in block.bindings:
            if binding.var in made:
                items.append(made[binding.var])
            elif is_copy(binding.value):
                root = main.root(binding.value)
                if root is not None:
                    near = device_position(binding.value.args[0].ty, vdevices)
                    items.append((root, near, device_position(binding.var.ty, vdevices)))
    return items


def _steps(
    main: LoweredMain,
    platform: Platform,
    order: Sequence[int | SegmentCopy],
    device_of: Sequence[int],
    results: Sequence[tuple[TensorSource, int, tuple[int, ...]]],
) -> tuple[Segment | SegmentCopy, ...]:
    """The order, cut into steps."""
    wanted = {root for root, _, _ in results}
    wanted |= {item.root for item in order if isinstance(item, SegmentCopy)}
    # Who else reads a root: by call, so that each segment need not look through all others.
    readers: dict[TensorSource, list[int]] = {}
    for call in main.calls:
        for root in main.reads(call):
            readers.setdefault(root, []).append(call.position)
    steps: list[Segment | SegmentCopy] = []
    for run in form_steps(_items(main, platform, order, device_of)):
        first = order[run[0]]
        if isinstance(first, SegmentCopy):
            steps.append(first)
        else:
            number = sum(isinstance(step, Segment) for step in steps)
            calls = [item for item in (order[i] for i in run) if isinstance(item, int)]
            steps.append(_segment(main, f"seg{number}", device_of[first], calls, readers, wanted))
    return tuple(steps)


def _items(
    main: LoweredMain,
    platform: Platform,
    order: Sequence[int | SegmentCopy],
    device_of: Sequence[int],
) -> list[StepItem]:
    """The order as `form_steps` takes it."""
    names = platform.names
    rivals = [tuple(map(platform.index.__getitem__, platform.rivals(name))) for name in names]
    # Which item puts a root into a memory; none does for inputs in the memory where they arrive.
    maker: dict[tuple[TensorSource, int], int] = {}
    items = []
    for number, item in enumerate(order):
        if isinstance(item, SegmentCopy):
            source = maker.get((item.root, memory_of(platform, item.near)))
            worker = (item.near, item.far) if item.worker is None else item.worker
            items.append(StepItem(worker, () if source is None else (source,), alone=True))
            maker[item.root, memory_of(platform, item.far)] = number
            continue
        device = device_of[item]
        memory = memory_of(platform, device)
        reads = main.reads(main.calls[item])
        sources = {maker[root, memory] for root in reads if (root, memory) in maker}
        items.append(StepItem(device, tuple(sorted(sources)), rivals=rivals[device]))
        for k in range(len(main.calls[item].outputs)):
            maker[TensorSource(item, k), memory] = number
    return items


def _segment(
    main: LoweredMain,
    name: str,
    device: int,
    run: Sequence[int],
    readers: Mapping[TensorSource, Sequence[int]],
    wanted: set[TensorSource],
) -> Segment:
    """One run as a segment; `wanted` are roots that leave it whoever reads them."""
    inside = set(run)
    calls = [main.calls[i] for i in run]
    reads = dict.fromkeys(root for call in calls for root in main.reads(call))
    made = [TensorSource(call.position, k) for call in calls for k in range(len(call.outputs))]
    constants = [c for call in calls for c in main.constants(call) if c is not None]
    return Segment(
        name=name,
        device=device,
        calls=tuple(run),
        ins=tuple(root for root in reads if root.call not in inside),
        constants=tuple(dict.fromkeys(constants)),
        outs=tuple(
            root for root in made if root in wanted or not inside.issuperset(readers.get(root, ()))
        ),
    )


def constant_names(main: LoweredMain) -> dict[Any, str]:
    """A name for every constant: the task that reads it first in the model's own order, and as
    which argument, so that a constant has the same name in every placement of a model, and for
    every element of a batch.
    """

    def place(call: KernelCall) -> tuple[int, tuple[int, ...]]:
        return original_position(main.task_ids[call.position]), call.elements

    names: dict[Any, str] = {}
    for call in sorted(main.calls, key=place):
        for k, (_, value) in enumerate(main.arguments(call)):
            if value is not None:
                names.setdefault(value, f"{plain_task(main.task_ids[call.position])}/{k}")
    return names


def _result(
    main: LoweredMain, number: int, vdevices: Sequence[Any]
) -> tuple[TensorSource, int, tuple[int, ...]]:
    """A result of the model: its root, the device where it is left, and its shape."""
    expr = main.results()[number]
    root = main.root(expr)
    if root is None:
        raise ModelError(
            f"output {number} of the model is a constant; leave it out of the model's outputs"
        )
    return root, device_position(expr.ty, vdevices), static_shape(expr.ty, f"output {number}")


def _modules(
    mod: tvm.IRModule, main: LoweredMain, device_of: Sequence[int], symbols: Sequence[str]
) -> dict[int, tvm.IRModule]:
    """For each device in use, in order, the kernels that are called there."""
    kernels: dict[int, dict[str, tvm.ir.GlobalVar]] = {d: {} for d in sorted(set(device_of))}
    for call, device, symbol in zip(main.calls, device_of, symbols, strict=True):
        other = kernels[device].setdefault(symbol, call.kernel)
        if other.name_hint != call.kernel.name_hint:
            raise ModelError(
                f"kernels {other.name_hint!r} and {call.kernel.name_hint!r} both are "
                f"{symbol!r} in a library; rename one of them"
            )
    return {
        device: tvm.IRModule({symbol: plain_kernel(mod[g]) for symbol, g in rows.items()})
        for device, rows in kernels.items()
    }


def input_signature(split: Split) -> list[tuple[str, tuple[int, ...], str]]:
    """(name, shape, dtype) of every input of the model."""
    return [
        (name, static_shape(param.ty, name), str(param.ty.dtype))
        for name, param in zip(split.inputs, split.main.params, strict=True)
    ]
