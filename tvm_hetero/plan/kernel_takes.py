"""What kernels take: every call of a plan is held against it before anything runs.

Kernels do not look at their arguments (`tvm_hetero.kernels.cpu.compilation`). One that is given an
argument twice writes its result where its weights are. So an artifact says beside its libraries
what each kernel takes, and a plan that gives one something else is refused. C++ does the same
(src/artifact/kernel_takes.cc).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, NamedTuple

from tvm_hetero.errors import FormatError
from tvm_hetero.plan.model import CallPlan, Plan, TensorPlan
from tvm_hetero.util.fields import Fields
from tvm_hetero.util.quote import quote
from tvm_hetero.util.untrusted_names import printable

# In the document of kernels.
TAKES = "takes"


@dataclass(frozen=True, slots=True)
class KernelTakes:
    """The arguments that a kernel takes, in order; it writes the last `written` of them."""

    args: tuple[TensorPlan, ...]
    written: int


# By the kernel's name in a library, and the device whose library it is.
AllTakes = Mapping[tuple[str, str], KernelTakes]


def takes_of(plans: Mapping[str, Plan]) -> dict[tuple[str, str], KernelTakes]:
    """What the kernels that plans call take.

    Raises
    ------
    FormatError
        If one kernel is given different arguments by two calls: a library has each name once.
    """
    found: dict[tuple[str, str], KernelTakes] = {}
    for name, plan in plans.items():
        for each in _calls(plan):
            given = KernelTakes(tuple(arg.type for arg in each.call.args), each.call.written)
            expected = found.setdefault((each.call.kernel, each.device), given)
            if given != expected:
                raise FormatError(f"{name}: {each.where}: {_difference(each, expected)}")
    return found


def check_takes(plan: Plan, takes: AllTakes, name: str) -> None:
    """Refuse a plan that gives a kernel anything but what it takes.

    Raises
    ------
    FormatError
        If one does, or calls a kernel of which nothing is known; `name`, of the document, the step,
        the task, the kernel and the first argument that differs are quoted.
    """
    for each in _calls(plan):
        expected = takes.get((each.call.kernel, each.device))
        if expected is None:
            raise FormatError(
                f"{name}: {each.where}: nothing says what kernel {quote(each.call.kernel)} of "
                f"{quote(each.device)} takes, expected one of the kernels of the artifact"
            )
        given = tuple(arg.type for arg in each.call.args)
        if given != expected.args or each.call.written != expected.written:
            raise FormatError(f"{name}: {each.where}: {_difference(each, expected)}")


def takes_rows(takes: AllTakes) -> list[dict[str, Any]]:
    """The rows of the document, one for each kernel and device."""
    return [
        {
            "kernel": kernel,
            "device": device,
            "args": [{"shape": list(arg.shape), "dtype": arg.dtype} for arg in one.args],
            "written": one.written,
        }
        for (kernel, device), one in takes.items()
    ]


def takes_from(document: Mapping[str, Any], name: str) -> dict[tuple[str, str], KernelTakes]:
    """What a document of kernels says that they take; it has some.

    Raises
    ------
    FormatError
        If a row is not one, or is the second of a kernel and device; `name` is quoted.
    """
    rows = Fields(document, name, [TAKES], None).rows(TAKES, _row)
    found = dict(rows)
    if len(found) < len(rows):
        raise FormatError(f"{name}: {TAKES} has a kernel of a device twice, expected each once")
    return found


def _row(data: object, where: str) -> tuple[tuple[str, str], KernelTakes]:
    row = Fields(data, where, ["kernel", "device", "args", "written"])
    one = KernelTakes(row.rows("args", _arg), row.integer("written"))
    return (row.text("kernel"), row.text("device")), one


def _arg(data: object, where: str) -> TensorPlan:
    row = Fields(data, where, ["shape", "dtype"])
    return TensorPlan(row.integers("shape"), row.text("dtype"))


class _Call(NamedTuple):
    """A call of a plan: its step, in which list of that it stands, and the device that runs it."""

    plan: Plan
    step: int
    key: str
    number: int
    call: CallPlan
    device: str

    @property
    def where(self) -> str:
        step = f"steps[{self.step}] {quote(self.plan.steps[self.step].name)}"
        return f"{step}: {self.key}[{self.number}] {quote(self.call.task)}"


def _calls(plan: Plan) -> Iterator[_Call]:
    for i, step in enumerate(plan.steps):
        device = plan.worker_of_step(step).name
        for key, calls in (("calls", step.calls), ("remote", step.remote)):
            for number, call in enumerate(calls):
                yield _Call(plan, i, key, number, call, device)


def _difference(each: _Call, expected: KernelTakes) -> str:
    """What a call gives otherwise than the kernel takes it: the first that there is."""
    kernel = f"kernel {quote(each.call.kernel)} of {quote(each.device)}"
    given = [arg.type for arg in each.call.args]
    for i, (one, other) in enumerate(zip_longest(given, expected.args)):
        if one != other:
            return (
                f"{kernel} is given {len(given)} arguments, expected {len(expected.args)}: "
                f"args[{i}] is {_type_name(one)}, expected {_type_name(other)}"
            )
    return f"{kernel}: written is {quote(each.call.written)}, expected {quote(expected.written)}"


def _type_name(tensor: TensorPlan | None) -> str:
    return "none" if tensor is None else f"{printable(tensor.dtype)}{quote(list(tensor.shape))}"
