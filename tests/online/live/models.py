"""A small model that can be adapted, on two unlike places, and what each configuration gives."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from tests.models import (
    branchy,
    branchy_inputs,
    equal_cpus,
    lowered,
    random_schedule,
    two_cpus,
    unit_problem,
)
from tvm_hetero.artifact.executable import PARTITION, Executable
from tvm_hetero.compiler.build import build
from tvm_hetero.compiler.plan_factory import PlanFactory
from tvm_hetero.executor.executor import Executor
from tvm_hetero.online.chain import chain_of, places_of, schedule_of
from tvm_hetero.online.configuration import Configuration
from tvm_hetero.passes.annotate_devices import annotate_devices
from tvm_hetero.platform.model import Platform

INPUTS: Mapping[str, Any] = dict(zip(("in/x", "y"), branchy_inputs(), strict=True))
BLOCKS = 10
WAIT = 60.0  # what a test waits for at most; it is there long before
# All on one place, all on the other, and divided.
BIG, LITTLE = Configuration((BLOCKS,), (0,)), Configuration((BLOCKS,), (1,))
DIVIDED = Configuration((4, BLOCKS), (0, 1))
TURNED = Configuration((3, BLOCKS), (1, 0))


@cache
def adaptable(equal: bool = False, single: bool = False) -> Executable:
    """The model; executables are immutable, so all tests may share it."""
    platform = equal_cpus() if equal else two_cpus()
    if single:
        platform = Platform(platform.devices[:1], name="one")
    module = lowered(branchy(), platform)
    problem = unit_problem(module, platform)
    placed = annotate_devices(module, problem, random_schedule(problem, 1))
    return build(placed, adaptable=True)


@cache
def outputs_of(configuration: Configuration) -> tuple[bytes, ...]:
    """What an executor gives that has no other plan than this configuration's."""
    executable = adaptable()
    problem = executable.problem
    schedule = schedule_of(chain_of(problem), configuration, places_of(problem.platform))
    variant = PlanFactory(executable).variant(schedule)
    alone = replace(executable, schedule=schedule, variants={PARTITION: variant})
    with Executor(alone) as executor:
        return as_bytes(executor.run(INPUTS))


def as_bytes(outputs: list[Any]) -> tuple[bytes, ...]:
    """Outputs that can be compared bit for bit, and hashed."""
    return tuple(np.ascontiguousarray(each.numpy()).tobytes() for each in outputs)


def endless() -> Iterator[Mapping[str, Any]]:
    """The same inputs again and again."""
    while True:
        yield INPUTS


@contextmanager
def streaming(executor: Executor) -> Iterator[None]:
    """Requests go through, in a thread of their own, until the block ends."""
    ended = threading.Event()

    def run() -> None:
        for _ in executor.map(endless()):
            if ended.is_set():
                return

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(WAIT)
    assert not thread.is_alive()
