"""Shared by the tests of the executor."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.executor.gated import Gated, gated
from tvm_hetero.artifact.executable import Executable
from tvm_hetero.executor.executor import Executor


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
