"""Shared by the tests of the runtime."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.models import placed
from tests.runtime.gated import Gated, gated
from tvm_hetero.runtime.compile import build
from tvm_hetero.runtime.executable import Executable
from tvm_hetero.runtime.executor import Executor


@pytest.fixture(scope="session")
def executable() -> Executable:
    """A small model on two devices, built; executables are immutable, so all may share it."""
    return build(placed(1))


@pytest.fixture
def held(executable: Executable) -> Iterator[Gated]:
    """An executor of y = 2x + 1 whose gate is shut."""
    with gated(executable) as (executor, gate):
        yield executor, gate


@pytest.fixture
def free(held: Gated) -> Executor:
    """The same with its gate open."""
    executor, gate = held
    gate.open.set()
    return executor
