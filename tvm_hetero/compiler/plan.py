"""From segments to an executor's plan (``tvm-hetero/plan/2``): slots, workers, steps, kernels.

Devices in the machine's main memory share slots, so a tensor that goes from one to the other is
not moved at all. A device with a memory of its own has slots of its own.

A segment becomes a step that lists its kernel calls, with all memory settled beforehand. An
argument of a call is a view, in the shape that the kernel sees, of

- ``in``: what the step reads from slots (tensors made elsewhere, inputs of the model, weights),
- ``out``: what others read, in slots too, or
- ``scratch``: what nobody else reads; `tvm_hetero.compiler.storage` gives it an offset. Parts of a
  concatenation may be made where they belong (`tvm_hetero.compiler.concat_elision`): its task is in
  the list
  ``joined`` of the step then, and is not called.

Workers that are ``alike`` run each other's steps where one has nothing of its own to do
(src/board.h): equal cores, which only compute.

An input that is a ``state`` (`tvm_hetero.passes.states`) is written in place by the call that reads
it; ``range`` says between which whole numbers an input lies.

On a board that is reached by RPC (`tvm_hetero.rpc_devices.client`) a segment is a step of kind
``call``
with its kernel calls under ``remote``. Weights, and what nobody else reads, stay on the board.

Every call names its task, so that a plan is readable by itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tvm_hetero.compiler.concat_elision import Joined, find_joined
from tvm_hetero.compiler.storage import Lifetime, plan_storage
from tvm_hetero.errors import PlatformError
from tvm_hetero.kernels.cpu.target import CPU, dl_device
from tvm_hetero.kernels.rowwise.concat import join_starts
from tvm_hetero.passes.element_names import MARK
from tvm_hetero.passes.io_tasks import is_host
from tvm_hetero.passes.lowered_main import KernelCall, Root, static_shape, tensor_bytes
from tvm_hetero.passes.split_segments import Copy, Segment, Split, input_signature
from tvm_hetero.passes.states import ranges_of, states_of
from tvm_hetero.platform.devices import Device
from tvm_hetero.platform.model import Platform, check_cores

FORMAT = "tvm-hetero/plan/2"
# The key of a step that says what it does on a board.
REMOTE = "remote"


def make_plan(
    split: Split, platform: Platform, alike: Iterable[Sequence[str]] = ()
) -> dict[str, Any]:
    """The plan of a split module.

    Parameters
    ----------
    alike : groups of devices for which every kernel is the same and takes the same.

    Raises
    ------
    PlatformError
        If two devices share a core and the platform does not ask for it, or a board is to keep a
        state.
    """
    check_cores(platform)
    plan = _PlanMaker(split, platform).plan()
    for names in alike:
        _mark_alike(plan, platform, names)
    return plan


def _mark_alike(plan: dict[str, Any], platform: Platform, names: Sequence[str]) -> None:
    """Let the workers of some devices run each other's steps, where they do nothing but compute."""
    others = {step["worker"] for step in plan["steps"] if step["kind"] != "kernels"}
    able = {
        device.name for device in platform.devices if is_host(device) and device.rpc is None
    }.intersection(names)
    found = [
        number
        for number, row in enumerate(plan["workers"])
        if row["name"] in able and number not in others
    ]
    if len(found) > 1:
        for number in found:
            plan["workers"][number]["alike"] = found[0]


def tasks_of_step(step: Mapping[str, Any]) -> tuple[str, ...]:
    """The ids of the tasks that a step of a plan runs; none for a copy."""
    return tuple(row["task"] for key in ("calls", REMOTE, "joined") for row in step.get(key, ()))


def native_plan(plan: Mapping[str, Any]) -> dict[str, Any]:
    """A plan as C++ reads it: to it, a step on a board is a function like any other."""
    steps = [{k: v for k, v in step.items() if k != REMOTE} for step in plan["steps"]]
    return {**plan, "steps": steps}


# Lists of a plan that are written with a row a line.
_LISTS = (
    "devices",
    "workers",
    "slots",
    "inputs",
    "constants",
    "outputs",
    "steps",
    "calls",
    "joined",
    REMOTE,
)


def plan_text(plan: Mapping[str, Any], indent: str = "\n ") -> str:
    """A plan as JSON to read: a line for each worker, slot, step, call of a kernel."""
    parts = []
    for key, value in plan.items():
        text = json.dumps(value)
        if key in _LISTS:
            rows = (f"{indent} {plan_text(row, indent + '  ')}" for row in value)
            text = f"[{','.join(rows)}]"
        parts.append(f"{json.dumps(key)}: {text}")
    return "{" + ("," + indent if "steps" in plan else ", ").join(parts) + "}"


def constant_name(weight: str, space: int) -> str:
    """The plan's name for a weight in a memory: a weight may be wanted in several."""
    return f"{weight}@{space}"


def weight_name(constant: str) -> str:
    """The weight that a plan's constant holds."""
    return constant.rsplit("@", 1)[0]


@dataclass(frozen=True)
class _Weight:
    """A constant of the model: what a slot holds that is no `Root`."""

    name: str


@dataclass
class _PlanMaker:
    split: Split
    platform: Platform
    _slots: list[dict[str, Any]] = field(default_factory=list)
    _slot_of: dict[tuple[Root | _Weight, int], int] = field(default_factory=dict)
    _workers: list[dict[str, Any]] = field(default_factory=list)
    _worker_of: dict[str, int] = field(default_factory=dict)
    _starts: dict[tuple[int, str], tuple[int, ...] | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        devices = self.platform.devices
        own = [device for device in devices if not is_host(device)]
        # The memories: main memory first, then each device that has its own.
        self._spaces = [
            _memory_row("host", (CPU, 0), [d for d in devices if is_host(d)]),
            *(_memory_row(d.name, dl_device(self.platform, d), [d]) for d in own),
        ]
        numbers = {row["name"]: number for number, row in enumerate(self._spaces)}
        # The memory of each device, as a position in `_spaces`.
        self._space = [0 if is_host(d) else numbers[d.name] for d in self.platform.devices]
        self._weight_of = {value: _Weight(name) for name, value in self.split.constants.items()}

    def plan(self) -> dict[str, Any]:
        inputs = self._inputs()
        for segment in self.split.segments:
            self._computing(segment.device)
        steps = [self._step(step) for step in self.split.steps]
        return {
            "format": FORMAT,
            "batch": self.split.batch,
            "devices": self._spaces,
            "workers": self._workers,
            "slots": self._slots,
            "inputs": inputs,
            "constants": [
                {"name": constant_name(what.name, space), "slot": slot}
                for (what, space), slot in self._slot_of.items()
                if isinstance(what, _Weight)
            ],
            "outputs": self._outputs(),
            "steps": steps,
        }

    def _inputs(self) -> list[dict[str, Any]]:
        states, ranges = states_of(self.split.main), ranges_of(self.split.main)
        homes = self.split.input_home
        rows = []
        for i, (name, shape, dtype) in enumerate(input_signature(self.split)):
            row = {"name": name, "slot": self._slot(Root(None, i), homes[i])}
            row |= {"shape": list(shape), "dtype": dtype}
            if i in states:
                row["state"] = True
            plain = name if self.split.batch == 1 else name.rpartition(MARK)[0]
            if plain in ranges:
                row["range"] = list(ranges[plain])
            rows.append(row)
        return rows

    def _slot(self, what: Root | _Weight, device: int) -> int:
        """The slot that holds a tensor in the memory of a device."""
        key = (what, self._space[device])
        if key not in self._slot_of:
            self._slot_of[key] = len(self._slots)
            row = {"name": self._name(what), "device": self._space[device]}
            self._slots.append({**row, **self._type(what)})
        return self._slot_of[key]

    def _name(self, what: Root | _Weight) -> str:
        if isinstance(what, _Weight):
            return what.name
        if what.call is None:
            return self.split.inputs[what.index]
        return self.split.main.tensor_name(what)

    def _type(self, what: Root | _Weight) -> dict[str, Any]:
        if isinstance(what, Root):
            return _type_row(self.split.main.type_of(what))
        value = self.split.constants[what.name]
        return {"shape": [int(d) for d in value.shape], "dtype": str(value.dtype)}

    def _worker(self, name: str, device: int, cores: Sequence[int], role: str) -> int:
        if name not in self._worker_of:
            self._worker_of[name] = len(self._workers)
            row = {"name": name, "device": self._space[device], "cores": list(cores), "role": role}
            self._workers.append(row)
        return self._worker_of[name]

    def _computing(self, device: int) -> int:
        """The worker that runs a device's segments."""
        row = self.platform.devices[device]
        return self._worker(row.name, device, row.cores, "compute")

    def _step(self, step: Segment | Copy) -> dict[str, Any]:
        if isinstance(step, Copy):
            return self._copy(step)
        if self.platform.devices[step.device].rpc is not None:
            return self._remote(step)
        return self._kernels(step)

    def _remote(self, segment: Segment) -> dict[str, Any]:
        """A segment on a board, which keeps the weights."""
        device = segment.device
        self._refuse_states(segment)
        weights = [self._weight_of[value] for value in segment.constants]
        places: dict[Any, dict[str, Any]] = {what: {"in": i} for i, what in enumerate(segment.ins)}
        places |= {weight: {"constant": weight.name} for weight in weights}
        places |= {root: {"out": i} for i, root in enumerate(segment.outs)}
        _place_temporaries(self.split, segment, places, Joined())
        return {
            "kind": "call",
            "name": f"{self.platform.names[device]}/{segment.name}",
            "function": REMOTE,
            "worker": self._computing(device),
            "ins": [self._slot(root, device) for root in segment.ins],
            "outs": [self._slot(root, device) for root in segment.outs],
            REMOTE: [self._call(self.split.main.calls[i], places) for i in segment.calls],
        }

    def _refuse_states(self, segment: Segment) -> None:
        states = states_of(self.split.main)
        kept = [root for root in segment.ins if root.call is None and root.index in states]
        if kept:
            raise PlatformError(
                f"device {self.platform.names[segment.device]!r} is reached by RPC and keeps no "
                f"states, but is to keep {self._name(kept[0])!r}; place its task elsewhere"
            )

    def _kernels(self, segment: Segment) -> dict[str, Any]:
        device = segment.device
        weights = [self._weight_of[value] for value in segment.constants]
        reads: list[Root | _Weight] = [*segment.ins, *weights]
        places: dict[Any, dict[str, int]] = {what: {"in": i} for i, what in enumerate(reads)}
        places |= {root: {"out": i} for i, root in enumerate(segment.outs)}
        joined = self._joined(segment, places)
        scratch = _place_temporaries(self.split, segment, places, joined)
        called = [call for call in segment.calls if call not in joined.calls]
        row = {
            "kind": "kernels",
            "name": f"{self.platform.names[device]}/{segment.name}",
            "worker": self._computing(device),
            "ins": [self._slot(what, device) for what in reads],
            "outs": [self._slot(root, device) for root in segment.outs],
            "scratch": scratch,
            "calls": [self._call(self.split.main.calls[i], places) for i in called],
        }
        if joined.calls:
            row["joined"] = [{"task": self.split.main.task_ids[i]} for i in joined.calls]
        return row

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
        made = {Root(i, k) for i in segment.calls for k in range(len(main.calls[i].outputs))}
        return find_joined(main, segment.calls, made.difference(places), starts)

    def _call(self, call: KernelCall, places: Mapping[Any, Mapping[str, Any]]) -> dict[str, Any]:
        main = self.split.main
        args = []
        for expr, constant in zip(call.args, main.constants(call), strict=True):
            what = main.root(expr) if constant is None else self._weight_of[constant]
            args.append({**places[what], **_type_row(expr.ty)})
        for k, ty in enumerate(call.outputs):
            args.append({**places[Root(call.position, k)], **_type_row(ty)})
        return {
            "kernel": self.split.symbols[call.position],
            "task": main.task_ids[call.position],
            "args": args,
            "written": len(call.outputs),
        }

    def _copy(self, copy: Copy) -> dict[str, Any]:
        near, far = (self.platform.devices[device] for device in (copy.near, copy.far))
        return {
            "kind": "copy",
            "name": f"{self._name(copy.root)}: {near.name} > {far.name}",
            "worker": self._copying(copy),
            "ins": [self._slot(copy.root, copy.near)],
            "outs": [self._slot(copy.root, copy.far)],
            "to_device": self._space[copy.far],
        }

    def _copying(self, copy: Copy) -> int:
        """The worker of a copy: an end's, or the link's own, on the device that has an engine."""
        if copy.worker is not None:
            return self._computing(copy.worker)
        names = self.platform.names
        engine = copy.near if is_host(self.platform.devices[copy.far]) else copy.far
        return self._worker(f"{names[copy.near]}>{names[copy.far]}", engine, (), "copy")

    def _outputs(self) -> list[dict[str, Any]]:
        return [
            {"name": name, "slot": self._slot(root, home), "shape": list(shape)}
            for name, (root, home, shape) in zip(
                self.split.outputs, self.split.results, strict=True
            )
        ]


def _place_temporaries(
    split: Split, segment: Segment, places: dict[Any, dict[str, Any]], joined: Joined
) -> int:
    """Add the offsets of what a segment keeps to itself to `places`; returns the arena's bytes."""
    main = split.main
    own: list[Root] = []
    lives: dict[Root, tuple[int, int]] = {}  # of what is no piece of something else
    for number, position in enumerate(segment.calls):
        call = main.calls[position]
        made = [Root(position, k) for k in range(len(call.outputs))]
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
        places[root] = {"scratch": start_of[whole] + offset}
    return scratch


def _memory_row(name: str, place: tuple[int, int], devices: Sequence[Device]) -> dict[str, Any]:
    """A memory that these devices work in, as large as all of them are allowed to fill."""
    row = {"name": name, "dl_type": place[0], "dl_id": place[1]}
    sizes = [device.memory for device in devices if device.memory is not None]
    if sizes and len(sizes) == len(devices):
        row["memory"] = sum(sizes)
    return row


def _type_row(ty: Any) -> dict[str, Any]:
    return {"shape": list(static_shape(ty, "tensor")), "dtype": str(ty.dtype)}
