"""From segments to an executor's plan (``tvm-hetero/plan/1``): slots, workers, steps.

Devices that share the machine's main memory (all CPU devices of a node) share slots, so a
tensor that goes from one to the other is not moved at all. A device with a memory of its own
has slots of its own, and every copy that the annotated module writes becomes a step: on the
copy worker of that device if it has a copy engine (``overlap``), else on the compute worker of
an end that is busy meanwhile (rule 4 of the execution model).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tvm_hetero.passes.dataflow import Root
from tvm_hetero.passes.io_tasks import is_host
from tvm_hetero.passes.split_segments import Segment, Split, input_signature
from tvm_hetero.platform import Device, Platform

FORMAT = "tvm-hetero/plan/1"
# DLPack's numbers of device types, by the kind of a TVM target.
DL_TYPES = {"llvm": 1, "c": 1, "cuda": 2, "opencl": 4, "vulkan": 7, "metal": 8, "rocm": 10}


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
    _worker_of: dict[tuple[str, str], int] = field(default_factory=dict)

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
            self._worker(self.platform.devices[segment.device], "compute")
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
        spaces = [("host", 1, 0)]
        counts: dict[str, int] = {}
        for device in self.platform.devices:
            if not is_host(device):
                number = counts.setdefault(device.kind, 0)
                counts[device.kind] += 1
                spaces.append((device.name, DL_TYPES[device.kind], number))
        return spaces

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
        kind, which = what
        return str(which) if kind == "constant" else self.split.outputs[which]

    def _worker(self, device: Device, role: str) -> int:
        key = (device.name, role)
        if key not in self._worker_of:
            self._worker_of[key] = len(self._workers)
            compute = role == "compute"
            self._workers.append(
                {
                    "name": device.name if compute else f"{device.name}.copy",
                    "device": self._space(self.platform.index[device.name]),
                    "cores": list(device.cores) if compute else [],
                    "role": role,
                }
            )
        return self._worker_of[key]

    def _steps(self) -> list[dict[str, Any]]:
        """Segments by their first call, each copy after the calls that stand before it."""
        keyed: list[tuple[float, Segment | tuple[int, Root, int, int]]] = [
            (float(segment.calls[0]), segment) for segment in self.split.segments
        ]
        keyed += [(copy[0] - 0.5, copy) for copy in self.split.copies]
        keyed.sort(key=lambda pair: pair[0])
        steps = []
        for _, item in keyed:
            if isinstance(item, Segment):
                steps.append(self._call_step(item))
            elif self._space(item[2]) != self._space(item[3]):
                steps.append(self._copy_step(*item[1:]))
        return steps

    def _call_step(self, segment: Segment) -> dict[str, Any]:
        device = segment.device
        ins = [self._slot(root, device) for root in segment.ins]
        names = {value: name for name, value in self.split.constants.items()}
        ins += [self._slot(("constant", names[value]), device) for value in segment.constants]
        outs = [self._slot(root, device) for root in segment.outs]
        outs += [self._slot(("result", i), device) for i in segment.results]
        return {
            "kind": "call",
            "name": f"{self.platform.names[device]}/{segment.name}",
            "function": segment.name,
            "worker": self._worker(self.platform.devices[device], "compute"),
            "ins": ins,
            "outs": outs,
        }

    def _copy_step(self, root: Root, near: int, far: int) -> dict[str, Any]:
        src, dst = self.platform.devices[near], self.platform.devices[far]
        blocked = next((d for d in (dst, src) if not d.overlap and self._computes(d)), None)
        engine = dst if not is_host(dst) else src
        worker = self._worker(blocked, "compute") if blocked else self._worker(engine, "copy")
        return {
            "kind": "copy",
            "name": f"{self._name(root)}: {src.name} > {dst.name}",
            "worker": worker,
            "ins": [self._slot(root, near)],
            "outs": [self._slot(root, far)],
            "to_device": self._space(far),
        }

    def _computes(self, device: Device) -> bool:
        return (device.name, "compute") in self._worker_of

    def _outputs(self) -> list[dict[str, Any]]:
        """Each result's slot: a view's own, else where the module leaves its tensor."""
        main = self.split.main
        view_home = {i: s.device for s in self.split.segments for i in s.results}
        outputs = []
        for i, (name, expr) in enumerate(zip(self.split.outputs, main.results(), strict=True)):
            if i in view_home:
                slot = self._slot(("result", i), view_home[i])
            else:
                slot = self._slot(main.root(expr), self.split.output_home[i])
            outputs.append({"name": name, "slot": slot})
        return outputs


def tasks_of_steps(split: Split, plan: dict[str, Any]) -> list[Sequence[str]]:
    """The ids of the tasks that each step of a plan runs, in order; none for a copy."""
    by_name = {
        segment.name: [split.main.task_ids[i] for i in segment.calls] for segment in split.segments
    }
    return [by_name.get(step.get("function", ""), []) for step in plan["steps"]]
