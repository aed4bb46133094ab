"""A plan as a JSON document and back: the one place in Python that knows the document's keys.

C++ parses the same document (src/plan) and checks what the form alone does not ensure; here a
document is only taken apart, and refused where a key or a type is not the format's, or a number is
that of no row.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

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
)
from tvm_hetero.plan.references import check_references
from tvm_hetero.util.documents import check_format
from tvm_hetero.util.fields import Fields, refuse

FORMAT = "tvm-hetero/plan/2"

Row = dict[str, Any]

# Lists of a plan that are written with a row a line.
_HEADS = ("devices", "workers", "slots", "inputs", "constants", "outputs")
_LISTS = frozenset((*_HEADS, "steps", "calls", "joined", "remote"))
# What gives a tensor its type.
_TYPE = ("shape", "dtype")
# The keys of each kind of step: those it must have, those it may have.
_OF_KIND: dict[StepKind, tuple[Sequence[str], Sequence[str]]] = {
    StepKind.KERNELS: (["scratch", "calls"], ["joined"]),
    StepKind.CALL: (["function"], ["remote"]),
    StepKind.COPY: (["to_device"], []),
}


# ------------------------------------------------------------------------ writing


def plan_to_dict(plan: Plan) -> Row:
    """The document of a plan."""
    return {
        "format": FORMAT,
        "batch": plan.batch,
        "devices": [_device_row(device) for device in plan.devices],
        "workers": [_worker_row(worker) for worker in plan.workers],
        "slots": [
            {"name": slot.name, "device": slot.device, **_type_row(slot.type)}
            for slot in plan.slots
        ],
        "inputs": [_input_row(given) for given in plan.inputs],
        "constants": [{"name": c.name, "slot": c.slot} for c in plan.constants],
        "outputs": [_output_row(output) for output in plan.outputs],
        "steps": [_step_row(step) for step in plan.steps],
    }


def plan_text(plan: Plan) -> str:
    """A plan as JSON to read: a line for each worker, slot, step, call of a kernel."""
    return _text(plan_to_dict(plan), "\n ")


def native_text(plan: Plan) -> str:
    """A plan as C++ reads it: to it, a step on an RPC device is a function like any other."""
    document = plan_to_dict(plan)
    for row in document["steps"]:
        row.pop("remote", None)
    return json.dumps(document)


def _text(row: Mapping[str, Any], indent: str) -> str:
    parts = []
    for key, value in row.items():
        text = json.dumps(value)
        if key in _LISTS:
            rows = (f"{indent} {_text(each, indent + '  ')}" for each in value)
            text = f"[{','.join(rows)}]"
        parts.append(f"{json.dumps(key)}: {text}")
    return "{" + ("," + indent if "steps" in row else ", ").join(parts) + "}"


def _device_row(device: DevicePlan) -> Row:
    row: Row = {"name": device.name, "dl_type": device.dl_type, "dl_id": device.dl_id}
    return row if device.memory is None else {**row, "memory": device.memory}


def _worker_row(worker: WorkerPlan) -> Row:
    row: Row = {"name": worker.name, "device": worker.device, "cores": list(worker.cores)}
    row["role"] = worker.role.value
    if worker.alike is not None:
        row["alike"] = worker.alike
    return {**row, "threads": list(worker.threads)} if worker.threads else row


def _type_row(tensor: TensorPlan | None) -> Row:
    return {} if tensor is None else {"shape": list(tensor.shape), "dtype": tensor.dtype}


def _input_row(given: InputPlan) -> Row:
    row: Row = {"name": given.name, "slot": given.slot, **_type_row(given.type)}
    if given.is_state:
        row["state"] = True
    if given.range is not None:
        row["range"] = list(given.range)
    return row


def _output_row(output: OutputPlan) -> Row:
    row: Row = {"name": output.name, "slot": output.slot}
    if output.shape is not None:
        row["shape"] = list(output.shape)
    return row if output.length is None else {**row, "length": list(output.length)}


def _step_row(step: StepPlan) -> Row:
    row: Row = {"kind": step.kind.value, "name": step.name}
    if step.kind is StepKind.CALL:
        row["function"] = step.function
    row |= {"worker": step.worker, "ins": list(step.ins), "outs": list(step.outs)}
    if step.kind is StepKind.COPY:
        row["to_device"] = step.to_device
    if step.kind is StepKind.KERNELS:
        row |= {"scratch": step.scratch, "calls": [_call_row(call) for call in step.calls]}
    if step.joined:
        row["joined"] = [{"task": task} for task in step.joined]
    if step.remote:
        row["remote"] = [_call_row(call) for call in step.remote]
    return row


def _call_row(call: CallPlan) -> Row:
    args = [{arg.kind.value: arg.where, **_type_row(arg.type)} for arg in call.args]
    return {"kernel": call.kernel, "task": call.task, "args": args, "written": call.written}


# ------------------------------------------------------------------------ reading


def plan_from_dict(document: Mapping[str, Any], name: str = "plan") -> Plan:
    """The plan of a document.

    Raises
    ------
    FormatError
        If a key is missing or unknown, a value is not of its type, or the number of a row of which
        there is none; `name` is quoted.
    """
    check_format(document, FORMAT, name)
    row = Fields(document, name, ["format", "batch", *_HEADS, "steps"])
    plan = Plan(
        row.integer("batch"),
        row.rows("devices", _device),
        row.rows("workers", _worker),
        row.rows("slots", _slot),
        row.rows("inputs", _input),
        row.rows("constants", _constant),
        row.rows("outputs", _output),
        row.rows("steps", _step),
    )
    check_references(plan, name)
    return plan


def _device(data: object, where: str) -> DevicePlan:
    row = Fields(data, where, ["name", "dl_type", "dl_id"], ["memory"])
    return DevicePlan(
        row.text("name"),
        row.integer("dl_type"),
        row.integer("dl_id"),
        row.integer("memory") if "memory" in row else None,
    )


def _worker(data: object, where: str) -> WorkerPlan:
    row = Fields(data, where, ["name", "device", "cores", "role"], ["alike", "threads"])
    return WorkerPlan(
        row.text("name"),
        row.integer("device"),
        row.integers("cores"),
        Role(row.choice("role", list(Role))),
        row.integer("alike") if "alike" in row else None,
        row.integers("threads", ()),
    )


def _slot(data: object, where: str) -> SlotPlan:
    typed = isinstance(data, Mapping) and ("shape" in data or "dtype" in data)
    row = Fields(data, where, ["name", "device", *(_TYPE if typed else ())])
    return SlotPlan(row.text("name"), row.integer("device"), _type(row) if typed else None)


def _input(data: object, where: str) -> InputPlan:
    row = Fields(data, where, ["name", "slot", *_TYPE], ["state", "range"])
    limits = row.integers("range") if "range" in row else None
    if limits is not None and len(limits) != 2:
        row.refuse("range", "two integers")
    return InputPlan(
        row.text("name"),
        row.integer("slot"),
        _type(row),
        row.flag("state"),
        None if limits is None else (limits[0], limits[1]),
    )


def _constant(data: object, where: str) -> ConstantPlan:
    row = Fields(data, where, ["name", "slot"])
    return ConstantPlan(row.text("name"), row.integer("slot"))


def _output(data: object, where: str) -> OutputPlan:
    row = Fields(data, where, ["name", "slot"], ["shape", "length"])
    shape = row.integers("shape") if "shape" in row else None
    length = row.integers("length") if "length" in row else None
    if length is not None and len(length) != 2:
        row.refuse("length", "the slot of a length and the axis that is so long")
    counted = None if length is None else (length[0], length[1])
    return OutputPlan(row.text("name"), row.integer("slot"), shape, counted)


def _step(data: object, where: str) -> StepPlan:
    kind = StepKind(Fields(data, where, ["kind"], None).choice("kind", list(StepKind)))
    required, optional = _OF_KIND[kind]
    row = Fields(data, where, ["kind", "name", "worker", "ins", "outs", *required], optional)
    return StepPlan(
        kind,
        row.text("name"),
        row.integer("worker"),
        row.integers("ins"),
        row.integers("outs"),
        row.text("function", ""),
        row.integer("to_device", -1),
        row.integer("scratch", 0),
        row.rows("calls", _call, default=()),
        row.rows("joined", _joined, default=()),
        row.rows("remote", _call, default=()),
    )


def _joined(data: object, where: str) -> str:
    return Fields(data, where, ["task"]).text("task")


def _call(data: object, where: str) -> CallPlan:
    row = Fields(data, where, ["kernel", "task", "args", "written"])
    return CallPlan(
        row.text("kernel"), row.text("task"), row.rows("args", _arg), row.integer("written")
    )


def _arg(data: object, where: str) -> ArgPlan:
    kinds = [kind for kind in ArgKind if isinstance(data, Mapping) and kind in data]
    if len(kinds) != 1:
        refuse(data, where, f"exactly one of {', '.join(map(repr, map(str, ArgKind)))}")
    [kind] = kinds
    row = Fields(data, where, [kind, *_TYPE])
    at = row.text(kind) if kind is ArgKind.CONSTANT else row.integer(kind)
    return ArgPlan(kind, at, _type(row))


def _type(row: Fields) -> TensorPlan:
    return TensorPlan(row.integers("shape"), row.text("dtype"))
