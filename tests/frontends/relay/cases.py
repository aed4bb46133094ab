"""Relay operators on small tensors, each with what it must give; many run as one program.

A case is an expression in Relay's text in which ``%x``, ``%y``, ... are tensors, and the result
that NumPy computes. `run_cases` makes one program of all cases of a family, so that they are
compiled together, and `check` compares.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tvm
from tvm import relax

from tests.kernels.helpers import REFERENCE
from tvm_hetero.frontends.relay import from_text
from tvm_hetero.kernels.cpu.compilation import PIPELINE
from tvm_hetero.passes.lower_to_tasks import LowerToTasks

_NAMES = "xyzuvw"


@dataclass
class Case:
    """``text`` on ``inputs`` gives ``expected`` (an array, or several); ``constant``: inputs that
    are bound as parameters.
    """

    text: str
    inputs: Sequence[np.ndarray]
    expected: Any
    constant: Sequence[int] = ()
    name: str = field(init=False)

    def __post_init__(self) -> None:
        self.name = re.sub(r"\s+", " ", self.text)

    @property
    def outputs(self) -> list[np.ndarray]:
        several = isinstance(self.expected, list | tuple)
        return [np.asarray(e) for e in (self.expected if several else [self.expected])]


def normal(*shape: int, seed: int = 0, dtype: str = "float32") -> np.ndarray:
    """Seeded normal values."""
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def whole(*shape: int, low: int = 0, high: int = 5, seed: int = 0) -> np.ndarray:
    """Seeded whole numbers."""
    return np.random.default_rng(seed).integers(low, high, shape).astype("int32")


def applied(operator: str, make: Callable[..., Any], *inputs: np.ndarray, **how: Any) -> Case:
    """A case of an operator on all its inputs; ``attributes`` are the text after them."""
    attributes = how.get("attributes", "")
    names = ", ".join(f"%{_NAMES[i]}" for i in range(len(inputs)))
    text = f"{operator}({names}{', ' + attributes if attributes else ''})"
    return Case(text, inputs, make(*inputs), how.get("constant", ()))


def type_text(array: np.ndarray) -> str:
    """A tensor's type as Relay prints it."""
    return f"Tensor[({', '.join(map(str, array.shape))}), {array.dtype}]"


def program(cases: Sequence[Case]) -> tuple[str, dict[str, np.ndarray], dict[str, np.ndarray]]:
    """One program of many cases: its text, its inputs, and its parameters."""
    params, lines, results = [], [], []
    inputs: dict[str, np.ndarray] = {}
    constants: dict[str, np.ndarray] = {}
    for i, case in enumerate(cases):
        text = re.sub(r"%([xyzuvw])\b", lambda m, i=i: f"%c{i}_{m[1]}", case.text)
        for k, array in enumerate(case.inputs):
            name = f"c{i}_{_NAMES[k]}"
            params.append(f"%{name}: {type_text(array)}")
            (constants if k in case.constant else inputs)[name] = array
        lines.append(f"  %{i} = {text};")
        count = len(case.outputs)
        several = isinstance(case.expected, list | tuple)
        results += [f"%{i}.{k}" for k in range(count)] if several else [f"%{i}"]
    body = "\n".join(lines)
    head = '#[version = "0.0.5"]\n'
    text = f"{head}def @main({', '.join(params)}) {{\n{body}\n  ({', '.join(results)},)\n}}\n"
    return text, inputs, constants


def run(module: tvm.IRModule, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """Lower a module to kernels, and run it on TVM's VM."""
    lower: tvm.transform.Pass = LowerToTasks()
    executable = tvm.compile(lower(module), REFERENCE, tir_pipeline=PIPELINE)
    machine = relax.VirtualMachine(executable, tvm.cpu())
    names = [str(name) for name in module["main"].attrs["hetero_input_names"]]
    found = machine["main"](*[tvm.runtime.tensor(inputs[name]) for name in names])
    outputs = [found] if isinstance(found, tvm.runtime.Tensor) else list(found)
    return [output.numpy() for output in outputs]


def check(cases: Sequence[Case]) -> None:
    """Run cases as one program and compare each with what it must give."""
    text, inputs, constants = program(cases)
    found = iter(run(from_text(text, constants), inputs))
    for case in cases:
        for expected in case.outputs:
            output = next(found)
            assert output.shape == expected.shape, case.name
            assert output.dtype == expected.dtype, (case.name, output.dtype, expected.dtype)
            if expected.dtype.kind == "f":
                np.testing.assert_allclose(
                    output, expected, rtol=2e-5, atol=2e-5, err_msg=case.name
                )
            else:
                np.testing.assert_array_equal(output, expected, err_msg=case.name)
