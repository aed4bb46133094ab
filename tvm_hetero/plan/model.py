"""What the executor runs, typed: steps on workers, tensors in slots (``tvm-hetero/plan/2``).

The classes, and what each field means, are those of ``include/tvm_hetero/plan.h``, by which C++
reads the same document; `tvm_hetero.plan.format` writes and reads it. Numbers that name something
(device, worker, slot) are indices into the plan's lists.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    """What a worker does."""

    COMPUTE = "compute"
    COPY = "copy"


class StepKind(StrEnum):
    """Kernels one after the other, a call of a function, or a copy between devices."""

    KERNELS = "kernels"
    CALL = "call"
    COPY = "copy"


class ArgKind(StrEnum):
    """Where an argument of a kernel lies."""

    IN = "in"  # a position in the step's `ins`
    OUT = "out"  # a position in the step's `outs`
    SCRATCH = "scratch"  # an offset into the worker's arena, bytes
    CONSTANT = "constant"  # a weight by its name; on an RPC device alone, which keeps it


@dataclass(frozen=True, slots=True)
class DevicePlan:
    """A place of memory and compute, as DLPack numbers it; `memory` in bytes if it is known."""

    name: str
    dl_type: int
    dl_id: int
    memory: int | None = None


@dataclass(frozen=True, slots=True)
class WorkerPlan:
    """A thread: its device, the cores that it is pinned to (none: not pinned), and its role.

    `alike` is the first of those workers that are identical, which run each other's steps. A
    worker with `threads` is a meeting: it has no thread of its own, the first of these workers runs
    its steps, and the others help with their parallel loops.
    """

    name: str
    device: int
    cores: tuple[int, ...]
    role: Role
    alike: int | None = None
    threads: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TensorPlan:
    """Shape and type of the elements of a compact tensor."""

    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True, slots=True)
class SlotPlan:
    """One tensor at one place; its type is known beforehand where kernels fill it."""

    name: str
    device: int
    type: TensorPlan | None


@dataclass(frozen=True, slots=True)
class InputPlan:
    """A slot that the caller fills.

    Attributes
    ----------
    is_state : whether the kernel that reads it writes it in place.
    range : between which integers its values lie, both included, where that is known.
    """

    name: str
    slot: int
    type: TensorPlan
    is_state: bool = False
    range: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class ConstantPlan:
    """A slot that the caller fills once."""

    name: str
    slot: int


@dataclass(frozen=True, slots=True)
class OutputPlan:
    """A slot that the caller reads after a run, in a shape of its own if it has one.

    `length` is the slot of a number and an axis that is so long, at most as `shape` says: then what
    there is of elements stands at the beginning of `slot`, one after the other.
    """

    name: str
    slot: int
    shape: tuple[int, ...] | None = None
    length: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class ArgPlan:
    """An argument of a kernel: a view, of a shape of its own, of memory that the step has.

    `where` is a position or an offset in bytes; of a constant, its name.
    """

    kind: ArgKind
    where: int | str
    type: TensorPlan


@dataclass(frozen=True, slots=True)
class CallPlan:
    """A call of a kernel for a task; the last `written` arguments are written, the others read."""

    kernel: str
    task: str
    args: tuple[ArgPlan, ...]
    written: int


@dataclass(frozen=True, slots=True)
class StepPlan:
    """What a worker does at once, when all its in-slots are full.

    Attributes
    ----------
    function : of a call: its name, for people.
    to_device : of a copy: where to.
    scratch : of kernels: bytes of the worker's arena in use.
    calls : of kernels, in their order.
    joined : of kernels: tasks that need no call, since their operands are made in their place.
    remote : of a call on an RPC device: the kernels that it runs there.
    """

    kind: StepKind
    name: str
    worker: int
    ins: tuple[int, ...]
    outs: tuple[int, ...]
    function: str = ""
    to_device: int = -1
    scratch: int = 0
    calls: tuple[CallPlan, ...] = ()
    joined: tuple[str, ...] = ()
    remote: tuple[CallPlan, ...] = ()

    @property
    def tasks(self) -> tuple[str, ...]:
        """The ids of the tasks that the step runs; none for a copy."""
        called = (call.task for calls in (self.calls, self.remote) for call in calls)
        return (*called, *self.joined)


@dataclass(frozen=True, slots=True)
class Plan:
    """A whole plan; `batch` elements run at once, each with inputs and outputs of its own."""

    batch: int
    devices: tuple[DevicePlan, ...]
    workers: tuple[WorkerPlan, ...]
    slots: tuple[SlotPlan, ...]
    inputs: tuple[InputPlan, ...]
    constants: tuple[ConstantPlan, ...]
    outputs: tuple[OutputPlan, ...]
    steps: tuple[StepPlan, ...]

    def device_of_slot(self, slot: int) -> DevicePlan:
        """The device whose memory holds a slot."""
        return self.devices[self.slots[slot].device]

    def worker_of_step(self, step: StepPlan) -> WorkerPlan:
        """The worker whose step it is."""
        return self.workers[step.worker]


def constant_name(weight: str, device: int) -> str:
    """The plan's name for a weight in a memory: a weight may be wanted in several."""
    return f"{weight}@{device}"


def weight_name(constant: str) -> str:
    """The weight that a plan's constant holds."""
    return constant.rsplit("@", 1)[0]
