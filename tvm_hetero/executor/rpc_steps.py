"""The steps of a plan that run on boards: from the executor's tensors to a board and back.

To the executor such a step is a function of Python's (kind ``call``): it is given the tensors of
the in-slots, which are in memory of this machine that is set apart for the board, and returns those
of the out-slots. What the step does is written under its key ``remote``.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tvm
import tvm_ffi

from tvm_hetero.errors import ArtifactError, FormatError
from tvm_hetero.executor.inputs import device_of_slot
from tvm_hetero.executor.native import NativeExecutor
from tvm_hetero.executor.tensors import as_array
from tvm_hetero.plan.model import ArgKind, ArgPlan, Plan, StepPlan, TensorPlan
from tvm_hetero.platform.model import Platform
from tvm_hetero.rpc_devices.client import (
    Bytes,
    Kept,
    RpcDevice,
    RpcProgram,
    lay_out,
    rpc_device_of,
)


class RpcSteps:
    """The programs that an executor has on boards; `close` lets go of them.

    Raises
    ------
    ArtifactError
        If a library or weight is missing.
    RunError
        If a board cannot be reached.
    """

    def __init__(
        self,
        executor: NativeExecutor,
        platform: Platform,
        libraries: Mapping[str, Path],
        weights: Mapping[str, Any],
    ) -> None:
        self._held: list[tuple[RpcDevice, int]] = []
        plan = executor.plan
        steps = [i for i, step in enumerate(plan.steps) if step.remote]
        functions: list[Any] = [None] * len(plan.steps)
        try:
            for worker in sorted({plan.steps[i].worker for i in steps}):
                name = plan.workers[worker].name
                own = [i for i in steps if plan.steps[i].worker == worker]
                if name not in libraries:
                    raise ArtifactError(
                        f"there is no library of device {name!r}; build the model again"
                    )
                board = rpc_device_of(platform.device(name))
                number = board.add(_program(plan, own, libraries[name], weights))
                self._held.append((board, number))
                program = _Running(board, number, _passed_on(plan, own), executor.frames + 1)
                for place, i in enumerate(own):
                    functions[i] = _function(plan, plan.steps[i], program, place)
            if steps:
                executor.set_functions(functions)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let go of the boards; a step that runs on one fails if no one else is there."""
        while (held := self._pop()) is not None:
            board, number = held
            board.remove(number)

    def _pop(self) -> tuple[RpcDevice, int] | None:
        try:
            return self._held.pop()
        except IndexError:  # another thread closes, too
            return None


def _program(
    plan: Plan, steps: Sequence[int], library: Path, weights: Mapping[str, Any]
) -> RpcProgram:
    """What a board has to know of its steps."""
    rows = [_step(plan, plan.steps[i]) for i in steps]
    calls = [call for i in steps for call in plan.steps[i].remote]
    constants = (a.where for call in calls for a in call.args if a.kind is ArgKind.CONSTANT)
    wanted = [str(name) for name in dict.fromkeys(constants)]
    missing = [name for name in wanted if name not in weights]
    if missing:
        raise ArtifactError(f"the plan needs a weight {missing[0]!r}, which is not there")
    own = {name: _array_bytes(as_array(weights[name])) for name in wanted}
    return RpcProgram(library.resolve(), own, rows)


def _step(plan: Plan, step: StepPlan) -> dict[str, Any]:
    """A step, with what goes there and comes back laid out in the region."""
    ins, outs = ([_slot_bytes(plan, slot) for slot in slots] for slots in (step.ins, step.outs))
    calls = [
        {"kernel": call.kernel, "args": [_argument(arg) for arg in call.args]}
        for call in step.remote
    ]
    return {"ins": lay_out(ins), "outs": lay_out(outs), "calls": calls}


def _argument(arg: ArgPlan) -> dict[str, Any]:
    tensor = {"shape": list(arg.type.shape), "dtype": arg.type.dtype}
    return {arg.kind.value: arg.where, **tensor, "bytes": _bytes_of(arg.type)}


def _passed_on(plan: Plan, steps: Sequence[int]) -> frozenset[int]:
    """The slots that one of these steps fills and another one reads."""
    made = {slot for i in steps for slot in plan.steps[i].outs}
    return frozenset(slot for i in steps for slot in plan.steps[i].ins if slot in made)


class _Running:
    """A program on a board, and which of the executor's tensors the board still has.

    A tensor is known by the address of its memory, which is no one else's while it is held here.
    All steps of a program are run by one thread, the worker's.
    """

    def __init__(self, board: RpcDevice, number: int, slots: frozenset[int], most: int) -> None:
        self.board = board
        self.number = number
        self._slots = slots
        self._most = most  # tensors of a slot: one for each request in flight
        self._next = dict.fromkeys(slots, 0)
        self._kept: dict[tuple[int, int], tuple[Any, Kept]] = {}
        self._at: dict[int, tuple[int, int]] = {}

    def find(self, tensor: Any) -> Kept | None:
        """Where the board has a tensor."""
        place = self._at.get(tensor.data_ptr())
        return None if place is None else self._kept[place][1]

    def place(self, slot: int) -> tuple[int, int] | None:
        """Where the next tensor of a slot is to be kept; what is there is forgotten."""
        if slot not in self._slots:
            return None
        place = (slot, self._next[slot])
        self._next[slot] = (self._next[slot] + 1) % self._most
        if place in self._kept:
            self._at.pop(self._kept.pop(place)[0].data_ptr(), None)
        return place

    def enter(self, place: tuple[int, int] | None, tensor: Any, connection: int) -> None:
        """Note that a tensor is kept there."""
        if place is not None:
            self._kept[place] = tensor, Kept(place, connection)
            self._at[tensor.data_ptr()] = place


def _function(plan: Plan, step: StepPlan, program: _Running, number: int) -> Any:
    """What the executor calls for a step."""
    outs = [(_type_of(plan, slot), device_of_slot(plan, slot)) for slot in step.outs]

    def run(*tensors: Any) -> Any:
        made = [tvm.runtime.empty(kind.shape, kind.dtype, device) for kind, device in outs]
        ins, results = ([_tensor_bytes(each) for each in many] for many in (tensors, made))
        had = [program.find(tensor) for tensor in tensors]
        keep = [program.place(slot) for slot in step.outs]
        connection = program.board.run(program.number, number, ins, results, had, keep)
        for place, tensor in zip(keep, made, strict=True):
            program.enter(place, tensor, connection)
        return made[0] if len(made) == 1 else made

    return run


def _tensor_bytes(tensor: Any) -> Bytes:
    """The memory of a contiguous tensor in this machine's memory, whatever its type."""
    size = _bytes_of(TensorPlan(tuple(map(int, tensor.shape)), str(tensor.dtype)))
    if not size:
        return np.empty(0, np.uint8)
    return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(tensor.data_ptr()))


def _array_bytes(array: np.ndarray[Any, Any]) -> Bytes:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _slot_bytes(plan: Plan, slot: int) -> int:
    return _bytes_of(_type_of(plan, slot))


def _type_of(plan: Plan, slot: int) -> TensorPlan:
    """The type of a slot that a kernel reads or fills: it is known beforehand."""
    kind = plan.slots[slot].type
    if kind is None:
        raise FormatError(f"slot {plan.slots[slot].name!r}: expected a shape and a dtype")
    return kind


def _bytes_of(kind: TensorPlan) -> int:
    return math.prod(kind.shape) * int(tvm_ffi.dtype(kind.dtype).itemsize)
