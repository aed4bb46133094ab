"""Executors whose steps wait until a test lets them go on: what happens meanwhile is no chance."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import tvm

from tests.executor.native_plans import PlanBuilder
from tvm_hetero.artifact.executable import PARTITION, Executable, Variant
from tvm_hetero.executor.executor import Executor
from tvm_hetero.plan.format import plan_from_dict

WAIT = 30.0  # what a test waits for at most; it is there long before


@dataclass
class Gate:
    """Holds every request in its first step while it is shut; fails those of a value."""

    open: threading.Event = field(default_factory=threading.Event)
    inside: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    seen: list[float] = field(default_factory=list)
    poison: float = -1.0

    def enter(self, x: Any) -> Any:
        """The first step: waits, then gives 2x."""
        value = float(x.numpy()[0])
        self.seen.append(value)
        self.inside.release()
        assert self.open.wait(WAIT)
        if value == self.poison:
            raise ValueError("poisoned")
        return tvm.runtime.tensor(2 * x.numpy())

    def leave(self, x: Any) -> Any:
        """The second step, on another worker: x + 1."""
        return tvm.runtime.tensor(x.numpy() + 1)

    def wait_inside(self) -> None:
        """Until a request is in the first step."""
        assert self.inside.acquire(timeout=WAIT)


Gated = tuple[Executor, Gate]


@contextmanager
def gated(executable: Executable) -> Iterator[tuple[Executor, Gate]]:
    """An executor of y = 2x + 1 in two steps on two workers, and the gate of the first one.

    The steps are functions of Python, which no build makes: the executable lends its problem only.
    """
    gate = Gate()
    builder = PlanBuilder(workers=2)
    [doubled] = builder.call([builder.input()], worker=0, function=gate.enter)
    [result] = builder.call([doubled], worker=1, function=gate.leave)
    plan = plan_from_dict(builder.output(result).plan)
    made = replace(executable, variants={PARTITION: Variant(plan, {})}, weights={})
    with Executor(made, PARTITION) as executor:
        executor._native.set_functions(builder.functions)
        try:
            yield executor, gate
        finally:
            gate.open.set()


def vector(value: float) -> np.ndarray:
    """An input."""
    return np.array([value, 0.0])


def result(outputs: list[Any]) -> float:
    """What came of `vector(x)`: 2x + 1."""
    return float(outputs[0].numpy()[0])
