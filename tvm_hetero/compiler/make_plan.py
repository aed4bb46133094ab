"""From segments to an executor's plan (``tvm-hetero/plan/2``): slots, workers, steps, kernels.

Devices in the machine's main memory share slots, so a tensor that goes from one to the other is
not moved at all. A device with a memory of its own has slots of its own.

A segment becomes a step that lists its kernel calls, with all memory settled beforehand. An
argument of a call is a view, in the shape that the kernel sees, of

- ``in``: what the step reads from slots (tensors made elsewhere, inputs of the model, weights),
- ``out``: what others read, in slots too, or
- ``scratch``: what no one else reads; `tvm_hetero.compiler.storage` gives it an offset. Parts of a
  concatenation may be made where they belong (`tvm_hetero.compiler.concat_elision`): its task is in
  the list
  ``joined`` of the step then, and is not called.

Devices that share cores exclude each other (`tvm_hetero.platform.teams`), so their workers are
*meetings* of threads, one a core: the first one runs a device's steps, the others help with their
parallel loops. So there is one thread a core, whichever device is at work. A team's copies are the
first thread's alone. Devices with a memory of their own take part in no meeting.

Workers that are ``alike`` run each other's steps where one has nothing of its own to do
(src/executor/state.h): equal cores, which only compute.

An input that is a ``state`` (`tvm_hetero.passes.states`) is written in place by the call that reads
it; ``range`` says between which integers an input lies.

On a board that is reached by RPC (`tvm_hetero.rpc_devices.client`) a segment is a step of kind
``call``
with its kernel calls under ``remote``. Weights, and what no one else reads, stay on the board.

Every call names its task, so that a plan is readable by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tvm_hetero.compiler.concat_elision import Joined, find_joined
from tvm_hetero.compiler.storage import Lifetime, plan_storage
from tvm_hetero.devices.target import CPU, dl_device
from tvm_hetero.errors import PlatformError, UsageError
from tvm_hetero.kernels.rowwise.concat import join_starts
from tvm_hetero.passes.io_tasks import is_host
from tvm_hetero.passes.lengths import counted_results
from tvm_hetero.passes.lowered_main import KernelCall, TensorSource, static_shape, tensor_bytes
from tvm_hetero.passes.split_segments import Segment, SegmentCopy, Split, input_signature
from tvm_hetero.passes.states import ranges_of, states_of
from tvm_hetero.plan.element_names import MARK
from tvm_hetero.plan.model import (
    ArgKind,
    ArgPlan,
    CallPlan,
    ConstantPlan,
    DevicePlan,
    InputPlan,
    OutputPlan,
    Plan,
    Role,
    SlotPlan,
    StepKind,
    StepPlan,
    TensorPlan,
    WorkerPlan,
    constant_name,
)
from tvm_hetero.platform.devices import Device
from tvm_hetero.platform.model import Platform
from tvm_hetero.platform.teams import NodeCore
from tvm_hetero.util.untrusted_names import identifier

# Where an argument lies: its kind, and the position, offset or name that goes with it.
_Place = tuple[ArgKind, int | str]


def make_plan(split: Split, platform: Platform, alike: Iterable[Sequence[str]] = ()) -> Plan:
    """The plan of a split module.

    Parameters
    ----------
    alike : groups of devices for which every kernel is the same and takes the same.

    Raises
    ------
    PlatformError
        If a board is to keep a state.
    """
    plan = _PlanMaker(split, platform).plan()
    for names in alike:
        plan = _mark_alike(plan, platform, names)
    return plan


def _mark_alike(plan: Plan, platform: Platform, names: Sequence[str]) -> Plan:
    """Let the workers of some devices run each other's steps, where they do nothing but compute."""
    others = {step.worker for step in plan.steps if step.kind is not StepKind.KERNELS}
    able = {
        device.name for device in platform.devices if is_host(device) and device.rpc is None
    }.intersection(names)
    found = [
        number
        for number, worker in enumerate(plan.workers)
        if worker.name in able and number not in others and not worker.threads
    ]
    if len(found) < 2:
        return plan
    workers = list(plan.workers)
    for number in found:
        workers[number] = replace(workers[number], alike=found[0])
    return replace(plan, workers=tuple(workers))


@dataclass(frozen=True)
class _Weight:
    """A constant of the model: what a slot holds that is no `TensorSource`."""

    name: str


@dataclass
class _PlanMaker:
    split: Split
    platform: Platform
    _slots: list[SlotPlan] = field(default_factory=list)
    _slot_of: dict[tuple[TensorSource | _Weight, int], int] = field(default_factory=dict)
    _workers: list[WorkerPlan] = field(default_factory=list)
    _worker_of: dict[str, int] = field(default_factory=dict)
    _starts: dict[tuple[int, str], tuple[int, ...] | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        devices = self.platform.devices
        own = [device for device in devices if not is_host(device)]
        # The memories: main memory first, then each device that has its own. Of teams, which see
        # one memory, the first is asked for its size.
        seen = [devices[d] for d in sorted(set(self.platform.memory_of))]
        self._spaces = [
            _memory_plan("host", (CPU, 0), [d for d in seen if is_host(d)]),
            *(_memory_plan(d.name, dl_device(self.platform, d), [d]) for d in own),
        ]
        numbers = {space.name: number for number, space in enumerate(self._spaces)}
        # The memory of each device, as a position in `_spaces`.
        self._space = [0 if is_host(d) else numbers[d.name] for d in self.platform.devices]
        self._homes = _thread_of_core(self.platform)
        self._weight_of = {value: _Weight(name) for name, value in self.split.constants.items()}

    def plan(self) -> Plan:
        inputs = self._inputs()
        for segment in self.split.segments:
            self._computing(segment.device)
        steps = [self._step(step) for step in self.split.steps]
        constants = [
            ConstantPlan(constant_name(what.name, space), slot)
            for (what, space), slot in self._slot_of.items()
            if isinstance(what, _Weight)
        ]
        outputs = self._outputs()
        return Plan(
            self.split.batch,
            devices=tuple(self._spaces),
            workers=tuple(self._workers),
            slots=tuple(self._slots),
            inputs=tuple(inputs),
            constants=tuple(constants),
            outputs=tuple(outputs),
            steps=tuple(steps),
        )

    def _inputs(self) -> list[InputPlan]:
        states, ranges = states_of(self.split.main), ranges_of(self.split.main)
        homes = self.split.input_home
        found = []
        for i, (name, shape, dtype) in enumerate(input_signature(self.split)):
            slot = self._slot(TensorSource(None, i), homes[i])
            plain = name if self.split.batch == 1 else name.rpartition(MARK)[0]
            limits = ranges.get(plain)
            found.append(
                InputPlan(
                    name,
                    slot,
                    TensorPlan(tuple(shape), dtype),
                    is_state=i in states,
                    range=None if limits is None else (limits[0], limits[1]),
                )
            )
        return found

    def _slot(self, what: TensorSource | _Weight, device: int) -> int:
        """The slot that holds a tensor in the memory of a device."""
        key = (what, self._space[device])
        if key not in self._slot_of:
            self._slot_of[key] = len(self._slots)
            self._slots.append(SlotPlan(self._name(what), self._space[device], self._type(what)))
        return self._slot_of[key]

    def _name(self, what: TensorSource | _Weight) -> str:
        if isinstance(what, _Weight):
            return what.name
        if what.call is None:
            return self.split.inputs[what.index]
        return self.split.main.tensor_name(what)

    def _type(self, what: TensorSource | _Weight) -> TensorPlan:
        if isinstance(what, TensorSource):
            return _tensor_plan(self.split.main.type_of(what))
        value = self.split.constants[what.name]
        return TensorPlan(tuple(int(d) for d in value.shape), str(value.dtype))

    def _worker(
        self,
        name: str,
        device: int,
        cores: Sequence[int],
        role: Role,
        threads: tuple[int, ...] = (),
    ) -> int:
        if name not in self._worker_of:
            self._worker_of[name] = len(self._workers)
            row = WorkerPlan(name, self._space[device], tuple(cores), role, threads=threads)
            self._workers.append(row)
        return self._worker_of[name]

    def _computing(self, device: int) -> int:
        """The worker that runs a device's segments."""
        row = self.platform.devices[device]
        if not is_host(row):
            return self._worker(row.name, device, row.cores, Role.COMPUTE)
        homes = {self._homes.get((row.node, core), row.name): core for core in row.cores}
        threads = [
            self._worker(home, device, (core,), Role.COMPUTE)
            for home, core in homes.items()
            if home != row.name
        ]
        return self._worker(row.name, device, row.cores, Role.COMPUTE, tuple(threads))

    def _step(self, step: Segment | SegmentCopy) -> StepPlan:
        if isinstance(step, SegmentCopy):
            return self._copy(step)
        if self.platform.devices[step.device].rpc is not None:
            return self._remote(step)
        return self._kernels(step)

    def _remote(self, segment: Segment) -> StepPlan:
        """A segment on a board, which keeps the weights."""
        device = segment.device
        self._refuse_states(segment)
        weights = [self._weight_of[value] for value in segment.constants]
        places: dict[Any, _Place] = {what: (ArgKind.IN, i) for i, what in enumerate(segment.ins)}
        places |= {weight: (ArgKind.CONSTANT, weight.name) for weight in weights}
        places |= {root: (ArgKind.OUT, i) for i, root in enumerate(segment.outs)}
        _place_temporaries(self.split, segment, places, Joined())
        return StepPlan(
            StepKind.CALL,
            f"{self.platform.names[device]}/{segment.name}",
            self._computing(device),
            ins=tuple(self._slot(root, device) for root in segment.ins),
            outs=tuple(self._slot(root, device) for root in segment.outs),
            function="remote",
            remote=tuple(self._call(self.split.main.calls[i], places) for i in segment.calls),
        )

    def _refuse_states(self, segment: Segment) -> None:
        states = states_of(self.split.main)
        kept = [root for root in segment.ins if root.call is None and root.index in states]
        if kept:
            raise PlatformError(
                f"device {self.platform.names[segment.device]!r} is reached by RPC and keeps no "
                f"states, but is to keep {self._name(kept[0])!r}; place its task elsewhere"
            )

    def _kernels(self, segment: Segment) -> StepPlan:
        device, main = segment.device, self.split.main
        weights = [self._weight_of[value] for value in segment.constants]
        reads: list[TensorSource | _Weight] = [*segment.ins, *weights]
        places: dict[Any, _Place] = {what: (ArgKind.IN, i) for i, what in enumerate(reads)}
        places |= {root: (ArgKind.OUT, i) for i, root in enumerate(segment.outs)}
        joined = self._joined(segment, places)
        scratch = _place_temporaries(self.split, segment, places, joined)
        called = [call for call in segment.calls if call not in joined.calls]
        return StepPlan(
            StepKind.KERNELS,
            f"{self.platform.names[device]}/{segment.name}",
            self._computing(device),
            ins=tuple(self._slot(what, device) for what in reads),
            outs=tuple(self._slot(root, device) for root in segment.outs),
            scratch=scratch,
            calls=tuple(self._call(main.calls[i], places) for i in called),
            joined=tuple(main.task_ids[i] for i in joined.calls),
        )

    def _joined(self, segment: Segment, places: Mapping[Any, object]) -> Joined:
        """The concatenations of a segment that need no call; `places` are not its own."""
        main = self.split.main
        kernels = self.split.modules[segment.device]
        starts = {}
        for i in segment.calls:
            key = (segment.device, self.split.symbols[i])
            if key not in self._starts:
                self._starts[key] = join_starts(kernels[self.split.symbols[i]])
            found = self._starts[key]
            if found is not None:
                starts[i] = found
        made = {
            TensorSource(i, k) for i in segment.calls for k in range(len(main.calls[i].outputs))
        }
        return find_joined(main, segment.calls, made.difference(places), starts)

    def _call(self, call: KernelCall, places: Mapping[Any, _Place]) -> CallPlan:
        main = self.split.main
        args = []
        for expr, constant in zip(call.args, main.constants(call), strict=True):
            what = main.root(expr) if constant is None else self._weight_of[constant]
            args.append(ArgPlan(*places[what], _tensor_plan(expr.ty)))
        for k, ty in enumerate(call.outputs):
            args.append(ArgPlan(*places[TensorSource(call.position, k)], _tensor_plan(ty)))
        return CallPlan(
            self.split.symbols[call.position],
            main.task_ids[call.position],
            tuple(args),
            written=len(call.outputs),
        )

    def _copy(self, copy: SegmentCopy) -> StepPlan:
        near, far = (self.platform.devices[device] for device in (copy.near, copy.far))
        worker = self._copying(copy)
        return StepPlan(
            StepKind.COPY,
            f"{self._name(copy.root)}: {near.name} > {far.name}",
            worker,
            ins=(self._slot(copy.root, copy.near),),
            outs=(self._slot(copy.root, copy.far),),
            to_device=self._space[copy.far],
        )

    def _copying(self, copy: SegmentCopy) -> int:
        """The worker of a copy: an end's, or the link's own, on the device that has an engine."""
        if copy.worker is not None:
            worker = self._computing(copy.worker)
            return next(iter(self._workers[worker].threads), worker)
        names = self.platform.names
        engine = copy.near if is_host(self.platform.devices[copy.far]) else copy.far
        return self._worker(f"{names[copy.near]}>{names[copy.far]}", engine, (), Role.COPY)

    def _outputs(self) -> list[OutputPlan]:
        counted = counted_results(self.split.main.function)
        if counted and self.split.batch > 1:
            raise UsageError(
                "outputs whose size depends on data do not come in batches: of each element there "
                "is another number; partition the model for a batch of 1"
            )
        slots = [self._slot(root, home) for root, home, _ in self.split.results]
        numbers = {row.number for row in counted.values()}
        outputs = []
        for i, (name, (_, _, shape)) in enumerate(
            zip(self.split.outputs, self.split.results, strict=True)
        ):
            row = counted.get(i)
            length = None if row is None else (slots[row.number], row.axis)
            if i not in numbers:
                outputs.append(OutputPlan(name, slots[i], tuple(shape), length))
        return outputs


def _thread_of_core(platform: Platform) -> dict[NodeCore, str]:
    """The worker whose thread is on a core, for each core of devices that share some and a memory.

    That of the first device that has this core alone, else one of the core's own. Whoever has a
    memory of its own has threads of its own.
    """
    rows = [d for d in platform.devices if is_host(d) and d.name in platform.team_cores]
    found: dict[NodeCore, str] = {}
    for device in rows:
        if len(device.cores) == 1:
            found.setdefault((device.node, device.cores[0]), device.name)
    taken = {*platform.names}
    for core in sorted({(d.node, core) for d in rows for core in d.cores} - found.keys()):
        found[core] = identifier(f"core{core[1]}", taken)
        taken.add(found[core])
    return found


def _place_temporaries(
    split: Split, segment: Segment, places: dict[Any, _Place], joined: Joined
) -> int:
    """Add the offsets of what a segment keeps to itself to `places`; returns the arena's bytes."""
    main = split.main
    own: list[TensorSource] = []
    lives: dict[TensorSource, tuple[int, int]] = {}  # of what is no piece of something else
    for number, position in enumerate(segment.calls):
        call = main.calls[position]
        made = [TensorSource(position, k) for k in range(len(call.outputs))]
        made = [root for root in made if root not in places]
        own += made
        for root in (*main.reads(call), *made):
            whole, _ = joined.place(root)
            if root in made or whole in lives:
                lives[whole] = lives.get(whole, (number, number))[0], number
    offsets, scratch = plan_storage(
        [Lifetime(tensor_bytes(main.type_of(r)), *life) for r, life in lives.items()]
    )
    start_of = dict(zip(lives, offsets, strict=True))
    for root in own:
        whole, offset = joined.place(root)
        places[root] = (ArgKind.SCRATCH, start_of[whole] + offset)
    return scratch


def _memory_plan(name: str, place: tuple[int, int], devices: Sequence[Device]) -> DevicePlan:
    """A memory that these devices work in, as large as all of them are allowed to fill."""
    sizes = [device.memory for device in devices if device.memory is not None]
    known = bool(sizes) and len(sizes) == len(devices)
    return DevicePlan(name, place[0], place[1], sum(sizes) if known else None)


def _tensor_plan(ty: Any) -> TensorPlan:
    return TensorPlan(tuple(static_shape(ty, "tensor")), str(ty.dtype))
