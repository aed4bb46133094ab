"""A plan as a JSON document and back: the one place in Python that knows the document's keys.

C++ parses the same document (src/plan) and checks what the form alone does not ensure; here a
document is only taken apart, and refused where a key or a type is not the format's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from tvm_hetero.errors import FormatError
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
from tvm_hetero.util.documents import check_keys

FORMAT = "tvm-hetero/plan/2"

Row = dict[str, Any]
_T = TypeVar("_T")

# Lists of a plan that are written with a row a line.
_HEADS = ("devices", "workers", "slots", "inputs", "constants", "outputs")
_LISTS = frozenset((*_HEADS, "steps", "calls", "joined", "remote"))


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
    return row if worker.alike is None else {**row, "alike": worker.alike}


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
    return row if output.shape is None else {**row, "shape": list(output.shape)}


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
        If a key is missing or unknown, or a value is not of its type; `name` is quoted.
    """
    keys = ["devices", "workers", "slots", "inputs", "constants", "outputs", "steps"]
    check_keys(document, name, ["format", "batch", *keys])
    if document["format"] != FORMAT:
        raise FormatError(f"{name}: expected format {FORMAT!r}, got {document['format']!r}")
    return Plan(
        _whole(document["batch"], f"{name}.batch"),
        _rows(document, "devices", name, _device),
        _rows(document, "workers", name, _worker),
        _rows(document, "slots", name, _slot),
        _rows(document, "inputs", name, _input),
        _rows(document, "constants", name, _constant),
        _rows(document, "outputs", name, _output),
        _rows(document, "steps", name, _step),
    )


def _rows(
    row: Mapping[str, Any], key: str, where: str, read: Callable[[Mapping[str, Any], str], _T]
) -> tuple[_T, ...]:
    values = row.get(key, [])
    if not isinstance(values, list):
        raise FormatError(f"{where}.{key}: expected a list, got {type(values).__name__}")
    found = []
    for i, value in enumerate(values):
        place = f"{where}.{key}[{i}]"
        if not isinstance(value, Mapping):
            raise FormatError(f"{place}: expected an object, got {type(value).__name__}")
        found.append(read(value, place))
    return tuple(found)


def _device(row: Mapping[str, Any], where: str) -> DevicePlan:
    check_keys(row, where, ["name", "dl_type", "dl_id"], ["memory"])
    return DevicePlan(
        _text_of(row, "name", where),
        _whole(row["dl_type"], f"{where}.dl_type"),
        _whole(row["dl_id"], f"{where}.dl_id"),
        _optional(row, "memory", where),
    )


def _worker(row: Mapping[str, Any], where: str) -> WorkerPlan:
    check_keys(row, where, ["name", "device", "cores", "role"], ["alike"])
    return WorkerPlan(
        _text_of(row, "name", where),
        _whole(row["device"], f"{where}.device"),
        _wholes(row["cores"], f"{where}.cores"),
        _choice(Role, row["role"], f"{where}.role"),
        _optional(row, "alike", where),
    )


def _slot(row: Mapping[str, Any], where: str) -> SlotPlan:
    check_keys(row, where, ["name", "device"], ["shape", "dtype"])
    kind = _type(row, where) if "shape" in row or "dtype" in row else None
    return SlotPlan(_text_of(row, "name", where), _whole(row["device"], f"{where}.device"), kind)


def _input(row: Mapping[str, Any], where: str) -> InputPlan:
    check_keys(row, where, ["name", "slot", "shape", "dtype"], ["state", "range"])
    limits = _wholes(row["range"], f"{where}.range") if "range" in row else None
    if limits is not None and len(limits) != 2:
        raise FormatError(f"{where}.range: expected two integers, got {len(limits)}")
    state = row.get("state", False)
    if not isinstance(state, bool):
        raise FormatError(f"{where}.state: expected true or false, got {state!r:.80}")
    return InputPlan(
        _text_of(row, "name", where),
        _whole(row["slot"], f"{where}.slot"),
        _type(row, where),
        state,
        None if limits is None else (limits[0], limits[1]),
    )


def _constant(row: Mapping[str, Any], where: str) -> ConstantPlan:
    check_keys(row, where, ["name", "slot"])
    return ConstantPlan(_text_of(row, "name", where), _whole(row["slot"], f"{where}.slot"))


def _output(row: Mapping[str, Any], where: str) -> OutputPlan:
    check_keys(row, where, ["name", "slot"], ["shape"])
    shape = _wholes(row["shape"], f"{where}.shape") if "shape" in row else None
    return OutputPlan(_text_of(row, "name", where), _whole(row["slot"], f"{where}.slot"), shape)


def _step(row: Mapping[str, Any], where: str) -> StepPlan:
    common = ["kind", "name", "worker", "ins", "outs"]
    kind = _choice(StepKind, row.get("kind"), f"{where}.kind")
    own: dict[StepKind, tuple[list[str], list[str]]] = {
        StepKind.KERNELS: (["scratch", "calls"], ["joined"]),
        StepKind.CALL: (["function"], ["remote"]),
        StepKind.COPY: (["to_device"], []),
    }
    required, optional = own[kind]
    check_keys(row, where, [*common, *required], optional)
    return StepPlan(
        kind,
        _text_of(row, "name", where),
        _whole(row["worker"], f"{where}.worker"),
        _wholes(row["ins"], f"{where}.ins"),
        _wholes(row["outs"], f"{where}.outs"),
        _text_of(row, "function", where) if "function" in row else "",
        _whole(row.get("to_device", -1), f"{where}.to_device"),
        _whole(row.get("scratch", 0), f"{where}.scratch"),
        _rows(row, "calls", where, _call),
        _rows(row, "joined", where, _joined),
        _rows(row, "remote", where, _call),
    )


def _joined(row: Mapping[str, Any], where: str) -> str:
    check_keys(row, where, ["task"])
    return _text_of(row, "task", where)


def _call(row: Mapping[str, Any], where: str) -> CallPlan:
    check_keys(row, where, ["kernel", "task", "args", "written"])
    return CallPlan(
        _text_of(row, "kernel", where),
        _text_of(row, "task", where),
        _rows(row, "args", where, _arg),
        _whole(row["written"], f"{where}.written"),
    )


def _arg(row: Mapping[str, Any], where: str) -> ArgPlan:
    kinds = [kind for kind in ArgKind if kind.value in row]
    if len(kinds) != 1:
        names = ", ".join(repr(kind.value) for kind in ArgKind)
        raise FormatError(f"{where}: expected exactly one of {names}")
    [kind] = kinds
    check_keys(row, where, [kind.value, "shape", "dtype"])
    if kind is ArgKind.CONSTANT:
        return ArgPlan(kind, _text_of(row, kind.value, where), _type(row, where))
    return ArgPlan(kind, _whole(row[kind.value], f"{where}.{kind}"), _type(row, where))


def _type(row: Mapping[str, Any], where: str) -> TensorPlan:
    check_keys({k: row[k] for k in ("shape", "dtype") if k in row}, where, ["shape", "dtype"])
    return TensorPlan(_wholes(row["shape"], f"{where}.shape"), _text_of(row, "dtype", where))


def _text_of(row: Mapping[str, Any], key: str, where: str) -> str:
    value = row[key]
    if not isinstance(value, str):
        raise FormatError(f"{where}.{key}: expected a text, got {value!r:.80}")
    return value


def _whole(value: Any, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise FormatError(f"{where}: expected an integer, got {value!r:.80}")
    return value


def _wholes(values: Any, where: str) -> tuple[int, ...]:
    if not isinstance(values, Iterable) or isinstance(values, str | Mapping):
        raise FormatError(f"{where}: expected a list of integers, got {values!r:.80}")
    return tuple(_whole(value, f"{where}[{i}]") for i, value in enumerate(values))


def _optional(row: Mapping[str, Any], key: str, where: str) -> int | None:
    return _whole(row[key], f"{where}.{key}") if key in row else None


_Kind = TypeVar("_Kind", Role, StepKind)


def _choice(kinds: type[_Kind], value: Any, where: str) -> _Kind:
    try:
        return kinds(value)
    except ValueError:
        known = ", ".join(repr(kind.value) for kind in kinds)
        raise FormatError(f"{where}: expected one of {known}, got {value!r:.80}") from None
