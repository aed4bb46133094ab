"""Shared by the tests of the runtime."""

from __future__ import annotations

import pytest

from tests.models import placed
from tvm_hetero.runtime.compile import build
from tvm_hetero.runtime.executable import Executable


@pytest.fixture(scope="session")
def executable() -> Executable:
    """A small model on two devices, built; executables are immutable, so all may share it."""
    return build(placed(1))
