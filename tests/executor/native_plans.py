"""Plans for the executor's tests, built row by row, and what they should compute."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm

from tvm_hetero.compiler.make_plan import make_plan
from tvm_hetero.errors import FormatError
from tvm_hetero.executor import native
from tvm_hetero.plan.format import plan_to_dict

ROOT = Path(__file__).parents[2]

Function = Callable[..., Any]


def create(document: dict[str, Any]) -> native.NativeExecutor:
    """An executor of a plan's document, right or wrong: C++ checks it."""
    return native.create_from_text(json.dumps(document))


def planned(*args: Any) -> dict[str, Any]:
    """The document of the plan that `make_plan` makes."""
    return plan_to_dict(make_plan(*args))


def tasks_of_step(row: dict[str, Any]) -> list[str]:
    """The tasks of a step of a document."""
    return [each["task"] for key in ("calls", "remote", "joined") for each in row.get(key, ())]


def tensor(*values: float) -> Any:
    """A float64 vector."""
    return tvm.runtime.tensor(np.array(values, dtype="float64"))


def step(number: int, outs: int = 1) -> Function:
    """A function whose result tells which step computed it, from what, in which order.

    Sums of integers small enough to be exact in float64: results are compared for equality.
    """

    def compute(*ins: Any) -> Any:
        total = sum((k + 1) * array.numpy() for k, array in enumerate(ins))
        results = [np.mod(3 * total + 7 * number + k + 1, 9973.0) for k in range(outs)]
        tensors = [tvm.runtime.tensor(result) for result in results]
        return tensors[0] if outs == 1 else tensors

    return compute


@dataclass
class PlanBuilder:
    """A plan under construction on CPU workers; each method returns the slots that it fills."""

    workers: int = 1
    cores: Sequence[Sequence[int]] | None = None
    plan: dict[str, Any] = field(init=False)
    functions: list[Function | None] = field(default_factory=list)

    def __post_init__(self) -> None:
        cores = self.cores or [[]] * self.workers
        self.plan = {
            "format": "tvm-hetero/plan/2",
            "batch": 1,
            "devices": [{"name": "cpu", "dl_type": 1, "dl_id": 0}],
            "workers": [
                {"name": f"w{i}", "device": 0, "cores": list(cores[i]), "role": "compute"}
                for i in range(self.workers)
            ],
            "slots": [],
            "inputs": [],
            "constants": [],
            "outputs": [],
            "steps": [],
        }

    def slot(self) -> int:
        self.plan["slots"].append({"name": f"t{len(self.plan['slots'])}", "device": 0})
        return len(self.plan["slots"]) - 1

    def alike(self, *workers: int) -> PlanBuilder:
        """Let workers run each other's steps."""
        for worker in workers:
            self.plan["workers"][worker]["alike"] = workers[0]
        return self

    def input(self, name: str = "x", size: int = 2) -> int:
        slot = self.slot()
        row = {"name": name, "slot": slot, "shape": [size], "dtype": "float64"}
        self.plan["inputs"].append(row)
        return slot

    def constant(self, name: str = "c") -> int:
        slot = self.slot()
        self.plan["constants"].append({"name": name, "slot": slot})
        return slot

    def call(
        self,
        ins: Sequence[int],
        *,
        worker: int = 0,
        outs: int = 1,
        function: Function | None = None,
        name: str | None = None,
    ) -> list[int]:
        number = len(self.plan["steps"])
        slots = [self.slot() for _ in range(outs)]
        self.plan["steps"].append(
            {
                "kind": "call",
                "name": name or f"s{number}",
                "function": f"f{number}",
                "worker": worker,
                "ins": list(ins),
                "outs": slots,
            }
        )
        self.functions.append(function or step(number, outs))
        return slots

    def copy(self, source: int, *, worker: int = 0, name: str = "copy") -> int:
        target = self.slot()
        self.plan["steps"].append(
            {
                "kind": "copy",
                "name": name,
                "worker": worker,
                "ins": [source],
                "outs": [target],
                "to_device": 0,
            }
        )
        self.functions.append(None)
        return target

    def output(self, slot: int, name: str = "y") -> PlanBuilder:
        self.plan["outputs"].append({"name": name, "slot": slot})
        return self

    def create(self) -> native.NativeExecutor:
        executor = create(self.plan)
        self.equip(executor)
        return executor

    def equip(self, executor: native.NativeExecutor) -> None:
        """Give an executor of this plan what it runs."""
        executor.set_functions(self.functions)


def chain(steps: int, workers: int = 1) -> PlanBuilder:
    """A chain of calls that goes round the workers."""
    builder = PlanBuilder(workers)
    slot = builder.input()
    for i in range(steps):
        [slot] = builder.call([slot], worker=i % workers)
    return builder.output(slot)


def diamond(workers: int = 2) -> PlanBuilder:
    """One step, two that read it, and one that reads those two."""
    builder = PlanBuilder(workers)
    [top] = builder.call([builder.input()], worker=0, name="top")
    [left] = builder.call([top], worker=1 % workers, name="left")
    [right] = builder.call([top], worker=2 % workers, name="right")
    [bottom] = builder.call([left, right, top], worker=0, name="bottom")
    return builder.output(bottom)


def evaluate(builder: PlanBuilder, **inputs: Any) -> dict[str, Any]:
    """What the plan computes, one step after another in any order that the data allows."""
    plan = builder.plan
    full = {row["slot"]: inputs[row["name"]] for row in plan["inputs"] + plan["constants"]}
    left = dict(enumerate(plan["steps"]))
    while left:
        number = next(i for i, row in left.items() if all(slot in full for slot in row["ins"]))
        row = left.pop(number)
        function = builder.functions[number]
        ins = [full[slot] for slot in row["ins"]]
        result = ins[0] if function is None else function(*ins)
        results = result if isinstance(result, list) else [result]
        full.update(zip(row["outs"], results, strict=True))
    return {row["name"]: full[row["slot"]].numpy() for row in plan["outputs"]}


def stream(executor: native.NativeExecutor, batches: Iterable[Any]) -> Iterator[list[Any]]:
    """The outputs of each batch (one input), in order, as many in flight as there is room for."""
    waiting: deque[int] = deque()
    try:
        for batch in batches:
            # With none waiting, frames may still be taken by what was forgotten before.
            while not (request := executor.submit([batch], wait_s=0 if waiting else -1)):
                executor.wait(waiting[0])
                yield executor.take(waiting.popleft())
            waiting.append(request)
            if len(waiting) > executor.frames:  # what has ended gives its frame back untaken
                executor.wait(waiting[0])
                yield executor.take(waiting.popleft())
        while waiting:
            executor.wait(waiting[0])
            yield executor.take(waiting.popleft())
    finally:
        for request in waiting:
            executor.forget(request)


def refused(plan: dict[str, Any]) -> str:
    """The words in which a plan is refused."""
    with pytest.raises(FormatError) as caught:
        create(plan)
    return str(caught.value)


# Without PyTorch, which tvm_ffi imports where there is one: it takes longer than all the rest.
PRELUDE = """
import sys
sys.modules["torch"] = None
import threading, time, tvm_ffi
from tvm_hetero.executor import native
from tests.executor.native_plans import PlanBuilder, chain, create, diamond, tensor
builder = PlanBuilder(workers=1)
"""


def run_python(code: str, quietly: bool = False) -> str:
    """Run code in a process of its own, which must end well (and say nothing); what it printed."""
    return _run(["-c", PRELUDE + textwrap.dedent(code)], quietly)


def run_module(name: str, *arguments: str) -> str:
    """Run a module in a process of its own, which must end well; what it printed."""
    return _run(["-m", name, *arguments])


def _run(arguments: Sequence[str], quietly: bool = False) -> str:
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=120, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    assert not (quietly and done.stderr), done.stderr
    return done.stdout
