"""From segments to an executor's plan (``tvm-hetero/plan/1``): slots, workers, steps.

Devices that share the machine's main memory (all CPU devices of a node) share slots, so a
tensor that goes from one to the other is not moved at all. A device with a memory of its own
has slots of its own, and every copy that the annotated module writes becomes a step: on the
compute worker of an end that is busy meanwhile (rule 4 of the execution model), else on a worker
of the link's own, since copies on different links do not disturb each other (rule 3).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tvm_hetero.passes.dataflow import Root
from tvm_hetero.passes.io_tasks import is_host
from tvm_hetero.passes.split_segments import Segment, Split, input_signature
from tvm_hetero.platform import Platform
from tvm_hetero.targets import CPU, dl_device

FORMAT = "tvm-hetero/plan/1"


def make_plan(split: Split, platform: Platform) -> dict[str, Any]:
    """The plan of a split module.

    Beside what the executor needs, each call step lists the ids of its tasks, and the plan the
    names of the devices' libraries: an artifact is readable by itself.
    """
    return _PlanMaker(split, platform).plan()


def constant_name(weight: str, space: int) -> str:
    """The plan's name for a weight in a memory: a weight may be wanted in several."""
    return f"{weight}@{space}"


def weight_name(constant: str) -> str:
    """The weight that a plan's constant holds."""
    return constant.rsplit("@", 1)[0]


@dataclass
class _PlanMaker:
    split: Split
    platform: Platform
    _slots: list[dict[str, Any]] = field(default_factory=list)
    _slot_of: dict[Any, int] = field(default_factory=dict)
    _workers: list[dict[str, Any]] = field(default_factory=list)
    _worker_of: dict[str, int] = field(default_factory=dict)

    def plan(self) -> dict[str, Any]:
        signature = input_signature(self.split)
        inputs = [
            {
                "name": name,
                "slot": self._slot(Root(None, i), home),
                "shape": list(shape),
                "dtype": t,
            }
            for i, ((name, shape, t), home) in enumerate(
                zip(signature, self.split.input_home, strict=True)
            )
        ]
        for segment in self.split.segments:
            self._computing(segment.device)
        steps = self._steps()
        return {
            "format": FORMAT,
            "devices": [
                {"name": name, "dl_type": dl_type, "dl_id": dl_id}
                for name, dl_type, dl_id in self._spaces
            ],
            "workers": self._workers,
            "slots": self._slots,
            "inputs": inputs,
            "constants": [
                {"name": constant_name(key[1], key[2]), "slot": slot}
                for key, slot in self._slot_of.items()
                if key[0] == "constant"
            ],
            "outputs": self._outputs(),
            "steps": steps,
        }

    @property
    def _spaces(self) -> list[tuple[str, int, int]]:
        """The memories: main memory first, then each device that has its own."""
        own = [device for device in self.platform.devices if not is_host(device)]
        return [("host", CPU, 0), *((d.name, *dl_device(self.platform, d)) for d in own)]

    def _space(self, device: int) -> int:
        """The memory of a device, as a position in `_spaces`."""
        row = self.platform.devices[device]
        if is_host(row):
            return 0
        return [name for name, _, _ in self._spaces].index(row.name)

    def _slot(self, what: Any, device: int, name: str = "") -> int:
        """The slot that holds a root (or other key) in the memory of a device."""
        key = (*(what if isinstance(what, tuple) else ("root", what)), self._space(device))
        if key not in self._slot_of:
            self._slot_of[key] = len(self._slots)
            self._slots.append({"name": name or self._name(what), "device": self._space(device)})
        return self._slot_of[key]

    def _name(self, what: Any) -> str:
        if isinstance(what, Root):
            if what.call is None:
                return self.split.inputs[what.index]
            return self.split.main.tensor_name(what)
        return str(what[1])

    def _worker(self, name: str, device: int, cores: Sequence[int], role: str) -> int:
        if name not in self._worker_of:
            self._worker_of[name] = len(self._workers)
            row = {"name": name, "device": self._space(device), "cores": list(cores), "role": role}
            self._workers.append(row)
        return self._worker_of[name]

    def _computing(self, device: int) -> int:
        """The worker that runs a device's segments."""
        row = self.platform.devices[device]
        return self._worker(row.name, device, row.cores, "compute")

    def _steps(self) -> list[dict[str, Any]]:
        """Segments by their first call, each copy after the calls that stand before it.

        A copy into a memory where the tensor is already (two CPU devices read what came from a
        GPU) is none.
        """
        keyed: list[tuple[float, Segment | tuple[int, Root, int, int]]] = [
            (float(segment.calls[0]), segment) for segment in self.split.segments
        ]
        keyed += [(copy[0] - 0.5, copy) for copy in self.split.copies]
        keyed.sort(key=lambda pair: pair[0])
        steps = []
        filled = {self._slot(Root(None, i), home) for i, home in enumerate(self.split.input_home)}
        for _, item in keyed:
            if isinstance(item, Segment):
                steps.append(self._call_step(item))
            elif self._slot(item[1], item[3]) not in filled:
                steps.append(self._copy_step(*item[1:]))
            filled.update(steps[-1]["outs"] if steps else ())
        return steps

    def _call_step(self, segment: Segment) -> dict[str, Any]:
        device = segment.device
        ins = [self._slot(root, device) for root in segment.ins]
        names = {value: name for name, value in self.split.constants.items()}
        ins += [self._slot(("constant", names[value]), device) for value in segment.constants]
        return {
            "kind": "call",
            "name": f"{self.platform.names[device]}/{segment.name}",
            "function": segment.name,
            "worker": self._computing(device),
            "ins": ins,
            "outs": [self._slot(root, device) for root in segment.outs],
        }

    def _copy_step(self, root: Root, near: int, far: int) -> dict[str, Any]:
        src, dst = self.platform.devices[near], self.platform.devices[far]
        return {
            "kind": "copy",
            "name": f"{self._name(root)}: {src.name} > {dst.name}",
            "worker": self._copying(near, far),
            "ins": [self._slot(root, near)],
            "outs": [self._slot(root, far)],
            "to_device": self._space(far),
        }

    def _copying(self, near: int, far: int) -> int:
        """The worker of a copy: an end that it keeps from computing, else the link's own."""
        for device in (far, near):
            row = self.platform.devices[device]
            if not row.overlap and row.name in self._worker_of:
                return self._computing(device)
        names = self.platform.names
        engine = near if is_host(self.platform.devices[far]) else far
        return self._worker(f"{names[near]}>{names[far]}", engine, (), "copy")

    def _outputs(self) -> list[dict[str, Any]]:
        return [
            {"name": name, "slot": self._slot(root, home), "shape": list(shape)}
            for name, (root, home, shape) in zip(
                self.split.outputs, self.split.results, strict=True
            )
        ]


def tasks_of_steps(split: Split, plan: dict[str, Any]) -> list[Sequence[str]]:
    """The ids of the tasks that each step of a plan runs, in order; none for a copy."""
    by_name = {
        segment.name: [split.main.task_ids[i] for i in segment.calls] for segment in split.segments
    }
    return [by_name.get(step.get("function", ""), []) for step in plan["steps"]]
