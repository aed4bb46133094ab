"""From an annotated module to what runs: a module a device, and the plan that joins them.

A *segment* is a run of kernel calls on one device that nothing outside has to interrupt. It
becomes one function of its device's module, called as a whole. A new segment begins

- before a call that reads something made on another device (the call may have to wait, its
  predecessors on this device must not), or an input that has to be copied into this device's
  memory first, and
- after a call whose output another device reads (it shall hear of it at once).

So a segment waits only before its first call and gives only after its last, and running
segments in order on each device is running the schedule. All constants become parameters, so
that weights are kept once, in a file of their own. The plan (``tvm-hetero/plan/1``, see
`tvm_hetero.runtime.native`) names slots for tensors, and steps: calls of segments, and copies
where two devices share no memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import tvm
from tvm import relax

from tvm_hetero.errors import ModelError
from tvm_hetero.passes.dataflow import (
    KernelCall,
    LoweredMain,
    Root,
    is_copy,
    names_of,
    original_position,
    read_main,
    static_shape,
)
from tvm_hetero.passes.emit import Emitter, device_position, with_vdevice
from tvm_hetero.passes.extract_tasks import INPUT_NAMES, OUTPUT_NAMES
from tvm_hetero.targets import HOST_KINDS


@dataclass(frozen=True)
class Segment:
    """Consecutive calls on one device.

    Attributes
    ----------
    name : of the function; device : its position in the platform.
    calls : positions in ``main``.
    ins : tensors read from outside; constants : the constants that are read.
    outs : tensors made here and wanted outside: read, copied away, or results of the model.
    """

    name: str
    device: int
    calls: tuple[int, ...]
    ins: tuple[Root, ...]
    constants: tuple[Any, ...]
    outs: tuple[Root, ...]


@dataclass(frozen=True)
class Split:
    """A module cut into segments.

    `copies` are (number of calls before it in `main`, root, from, to). A result of the model is
    a root and a shape: a result that is a view has the elements of its root, in order.
    """

    main: LoweredMain
    segments: tuple[Segment, ...]
    copies: tuple[tuple[int, Root, int, int], ...]
    constants: Mapping[str, Any]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    input_home: tuple[int, ...]
    results: tuple[tuple[Root, int, tuple[int, ...]], ...]
    modules: Mapping[int, tvm.IRModule] = field(default_factory=dict)


def split_segments(mod: tvm.IRModule) -> Split:
    """Cut an annotated module into segments and write a module for each device in use.

    Raises
    ------
    ModelError
        If an output of the model is a constant.
    """
    main = read_main(mod)
    vdevices = list(mod.global_infos["vdevice"])
    device_of = [device_position(call.outputs[0], vdevices) for call in main.calls]
    copies = tuple(_copies(main, vdevices))
    wanted = {root for _, root, _, _ in copies}
    wanted |= {_result(main, i, vdevices)[0] for i in range(len(main.results()))}
    segments = [
        _segment(main, number, run, device_of, wanted)
        for number, run in enumerate(_cut(main, device_of, _far_inputs(main, vdevices)))
    ]
    modules = {
        device: _device_module(mod, main, [s for s in segments if s.device == device])
        for device in sorted({segment.device for segment in segments})
    }
    return Split(
        main=main,
        segments=tuple(segments),
        copies=copies,
        constants={name: value for value, name in _constants(main).items()},
        inputs=tuple(names_of(mod, INPUT_NAMES, len(main.params), "input")),
        outputs=tuple(names_of(mod, OUTPUT_NAMES, len(main.results()), "output")),
        input_home=tuple(device_position(param.ty, vdevices) for param in main.params),
        results=tuple(_result(main, i, vdevices) for i in range(len(main.results()))),
        modules=modules,
    )


def _cut(
    main: LoweredMain, device_of: Sequence[int], far: Sequence[frozenset[int]]
) -> list[list[int]]:
    """Runs of calls (see the file's text), in the order of their first calls.

    `far` holds for each input the devices to which it must be copied.
    """
    crossing = _read_elsewhere(main, device_of)
    arrived: set[tuple[Root, int]] = set()
    runs: list[list[int]] = []
    open_run: dict[int, list[int]] = {}
    for call in main.calls:
        i, device = call.position, device_of[call.position]
        roots = main.reads(call)
        sources = [root.call for root in roots if root.call is not None]
        inputs = {(r, device) for r in roots if r.call is None and device in far[r.index]}
        waits = any(device_of[j] != device for j in sources) or not inputs <= arrived
        arrived |= inputs
        if device not in open_run or waits:
            open_run[device] = []
            runs.append(open_run[device])
        open_run[device].append(i)
        if i in crossing:
            del open_run[device]
    return runs


def _far_inputs(main: LoweredMain, vdevices: Sequence[Any]) -> list[frozenset[int]]:
    """For each input the devices with another memory than the one in which it arrives."""
    memories = [
        -1 if str(vdevice.target.kind.name) in HOST_KINDS else number
        for number, vdevice in enumerate(vdevices)
    ]
    homes = [memories[device_position(param.ty, vdevices)] for param in main.params]
    return [
        frozenset(device for device, memory in enumerate(memories) if memory != home)
        for home in homes
    ]


def _read_elsewhere(main: LoweredMain, device_of: Sequence[int]) -> set[int]:
    """Calls with an output that is read on another device."""
    return {
        root.call
        for call in main.calls
        for root in main.reads(call)
        if root.call is not None and device_of[root.call] != device_of[call.position]
    }


def _constants(main: LoweredMain) -> dict[Any, str]:
    """A name for every constant: the task that reads it first in the model's own order, and as
    which argument, so that a constant has the same name in every placement of a model.
    """
    names: dict[Any, str] = {}
    for call in sorted(main.calls, key=lambda c: original_position(main.task_ids[c.position])):
        for k, value in enumerate(main.constants(call)):
            if value is not None:
                names.setdefault(value, f"{main.task_ids[call.position]}/{k}")
    return names


def _segment(
    main: LoweredMain,
    number: int,
    run: Sequence[int],
    device_of: Sequence[int],
    wanted: set[Root],
) -> Segment:
    """One run as a segment; `wanted` are roots that leave it whoever reads them."""
    inside = set(run)
    calls = [main.calls[i] for i in run]
    reads = dict.fromkeys(root for call in calls for root in main.reads(call))
    outside = {
        root
        for call in main.calls
        if call.position not in inside
        for root in main.reads(call)
    }
    outs = {root for root in outside | wanted if root.call in inside}
    constants = [c for call in calls for c in main.constants(call) if c is not None]
    return Segment(
        name=f"seg{number}",
        device=device_of[run[0]],
        calls=tuple(run),
        ins=tuple(root for root in reads if root.call not in inside),
        constants=tuple(dict.fromkeys(constants)),
        outs=tuple(sorted(outs, key=lambda root: (root.call, root.index))),
    )


def _result(
    main: LoweredMain, number: int, vdevices: Sequence[Any]
) -> tuple[Root, int, tuple[int, ...]]:
    """A result of the model: its root, the device where it is left, and its shape."""
    expr = main.results()[number]
    root = main.root(expr)
    if root is None:
        raise ModelError(
            f"output {number} of the model is a constant; leave it out of the model's outputs"
        )
    return root, device_position(expr.ty, vdevices), static_shape(expr.ty, f"output {number}")


def _copies(main: LoweredMain, vdevices: Sequence[Any]) -> list[tuple[int, Root, int, int]]:
    """Every copy that `main` writes: (number of calls before it, root, from, to)."""
    copies = []
    before = 0
    made = {call.var: call.position for call in main.calls}
    for block in main.function.body.blocks:
        for binding in block.bindings:
            if binding.var in made:
                before = made[binding.var] + 1
            elif is_copy(binding.value):
                root = main.root(binding.value)
                if root is not None:
                    near = device_position(binding.value.args[0].ty, vdevices)
                    copies.append((before, root, near, device_position(binding.var.ty, vdevices)))
    return copies


def _device_module(
    mod: tvm.IRModule, main: LoweredMain, segments: Sequence[Segment]
) -> tvm.IRModule:
    """The module of one device: its segments, and the kernels that they call."""
    builder = relax.BlockBuilder()
    kernels: dict[str, tvm.ir.GlobalVar] = {}
    for segment in segments:
        _write_segment(builder, mod, main, segment, kernels)
    return builder.get()


def _write_segment(
    builder: relax.BlockBuilder,
    mod: tvm.IRModule,
    main: LoweredMain,
    segment: Segment,
    kernels: dict[str, tvm.ir.GlobalVar],
) -> None:
    """Write a segment as a function from its ins and constants to the tuple of its outs."""
    ins = [relax.Var(f"t{k}", _plain(main.type_of(r))) for k, r in enumerate(segment.ins)]
    weights = [relax.Var(f"c{k}", _type_of(c)) for k, c in enumerate(segment.constants)]
    env: dict[Root, Any] = dict(zip(segment.ins, ins, strict=True))
    weight_of = dict(zip(segment.constants, weights, strict=True))
    made: dict[int, Any] = {}

    def tensor(root: Root, _place: int) -> Any:
        if root not in env:
            assert root.call is not None  # every input is in `env` from the start
            env[root] = builder.emit(relax.TupleGetItem(made[root.call], root.index))
        return env[root]

    emitter = Emitter(
        builder, main, tensor, lambda const, _place: weight_of[const.value]
    )
    with builder.function(segment.name, [*ins, *weights]):
        with builder.dataflow():
            for position in segment.calls:
                call = main.calls[position]
                var = emitter.call(
                    call, _kernel(builder, mod, call, kernels), _plain(call.expr.ty_args[0]), 0
                )
                made[position] = var
                if not call.is_tuple:
                    env[Root(position, 0)] = var
            outs = [tensor(root, 0) for root in segment.outs]
            out = builder.emit_output(relax.Tuple(outs))
        builder.emit_func_output(out)


def _kernel(
    builder: relax.BlockBuilder,
    mod: tvm.IRModule,
    call: KernelCall,
    kernels: dict[str, tvm.ir.GlobalVar],
) -> tvm.ir.GlobalVar:
    name = call.kernel.name_hint
    if name not in kernels:
        kernels[name] = builder.add_func(mod[call.kernel], name)
    return kernels[name]


def _plain(ty: Any) -> Any:
    return with_vdevice(ty, None)


def _type_of(tensor: Any) -> relax.TensorType:
    return relax.TensorType(tuple(int(d) for d in tensor.shape), str(tensor.dtype))


def input_signature(split: Split) -> list[tuple[str, tuple[int, ...], str]]:
    """(name, shape, dtype) of every input of the model."""
    return [
        (name, static_shape(param.ty, name), str(param.ty.dtype))
        for name, param in zip(split.inputs, split.main.params, strict=True)
    ]
