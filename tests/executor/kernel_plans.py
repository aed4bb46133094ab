"""Plans of compiled kernels for the executor's tests: some small kernels, rows that call them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import tvm
from tvm import te

from tests.executor.native_plans import PlanBuilder
from tvm_hetero.executor import native

SIZE = 32  # values of a vector
BYTES = 4 * SIZE
ALIGNED = 64
FLOATS = ("float16", "bfloat16", "float64")

Row = dict[str, Any]

# What kernels with one result compute of float32[32].
REFERENCE: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b,
    "twice": lambda a: 2 * a,
    "negate": lambda a: -a,
}


@functools.cache
def library() -> Any:
    """The compiled kernels."""
    functions = {
        "add": _elementwise("add", 2, lambda a, b: a + b),
        "twice": _elementwise("twice", 1, lambda a: a * 2),
        "negate": _elementwise("negate", 1, lambda a: -a),
        "neighbours": _neighbours(),
        "transpose": _transpose(),
    }
    for dtype in FLOATS:
        name = f"twice_{dtype}"
        functions[name] = _elementwise(name, 1, lambda a: a + a, dtype)
    target = {"kind": "llvm", "mcpu": "x86-64-v2"}
    return tvm.tirx.build(tvm.IRModule(functions), target=target)


def _elementwise(
    name: str, operands: int, compute: Callable[..., Any], dtype: str = "float32"
) -> Any:
    ins = [te.placeholder((SIZE,), name=f"a{i}", dtype=dtype) for i in range(operands)]
    out = te.compute((SIZE,), lambda i: compute(*[a[i] for a in ins]), name="out")
    return te.create_prim_func([*ins, out]).with_attr("global_symbol", name)


def _neighbours() -> Any:
    a = te.placeholder((SIZE,), name="a", dtype="float32")
    above, below = te.compute((SIZE,), lambda i: (a[i] + 1, a[i] - 1), name="out")
    return te.create_prim_func([a, above, below]).with_attr("global_symbol", "neighbours")


def _transpose() -> Any:
    a = te.placeholder((4, 8), name="a", dtype="float32")
    out = te.compute((8, 4), lambda i, j: a[j, i], name="out")
    return te.create_prim_func([a, out]).with_attr("global_symbol", "transpose")


def call(kernel: str, *args: Row, written: int = 1, task: str = "") -> Row:
    """A row of a step's calls."""
    return {
        "kernel": kernel,
        "task": task or f"the {kernel}",
        "args": list(args),
        "written": written,
    }


def view(kind: str, where: int, shape: Sequence[int] = (SIZE,), dtype: str = "float32") -> Row:
    """An argument: ``view("scratch", 64)``, ``view("out", 0, (4, 8))``."""
    return {kind: where, "shape": list(shape), "dtype": dtype}


def aligned(values: Any, dtype: str = "float32") -> Any:
    """A tensor with memory of its own, which kernels take."""
    numpy_type = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    return tvm.runtime.tensor(np.asarray(values).astype(numpy_type))


@dataclass
class KernelPlan(PlanBuilder):
    """A plan of kernels steps under construction; slots are float32[32] unless told otherwise."""

    typed: Mapping[str, Any] = field(
        default_factory=lambda: {"shape": [SIZE], "dtype": "float32"}, repr=False
    )

    def vector(self, name: str = "x", device: int = 0, dtype: str = "float32") -> int:
        """An input."""
        slot = self.typed_slot(device, dtype)
        row = {"name": name, "slot": slot, "shape": [SIZE], "dtype": dtype}
        self.plan["inputs"].append(row)
        return slot

    def typed_slot(self, device: int = 0, dtype: str = "float32") -> int:
        slot = self.slot()
        self.plan["slots"][slot].update(self.typed, dtype=dtype, device=device)
        return slot

    def kernels(
        self,
        ins: Sequence[int],
        calls: Sequence[Row],
        *,
        worker: int = 0,
        outs: int = 1,
        scratch: int = 0,
        name: str | None = None,
        dtype: str = "float32",
    ) -> list[int]:
        """A kernels step; returns the slots that it fills."""
        device = self.plan["workers"][worker]["device"]
        slots = [self.typed_slot(device, dtype) for _ in range(outs)]
        self.plan["steps"].append(
            {
                "kind": "kernels",
                "name": name or f"s{len(self.plan['steps'])}",
                "worker": worker,
                "ins": list(ins),
                "outs": slots,
                "scratch": scratch,
                "calls": list(calls),
            }
        )
        self.functions.append(None)
        return slots

    def output(self, slot: int, name: str = "y") -> KernelPlan:
        super().output(slot, name)
        return self

    def equip(self, executor: native.NativeExecutor) -> None:
        super().equip(executor)
        for worker in range(len(self.plan["workers"])):
            executor.set_library(worker, library())


def one_call() -> KernelPlan:
    """A plan of one step that adds two inputs by way of scratch."""
    plan = KernelPlan()
    x, y = plan.vector("x"), plan.vector("y")
    calls = [
        call("twice", view("in", 0), view("scratch", 0)),
        call("add", view("scratch", 0), view("in", 1), view("out", 0)),
    ]
    [out] = plan.kernels([x, y], calls, scratch=BYTES)
    plan.output(out)
    return plan
