"""What tests of the C++ loader share: the example program, and an artifact for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cpp.cpp_build import example_program
from tvm_hetero.artifact.executable import Executable


@pytest.fixture(scope="session")
def program() -> Path:
    """The example program, built."""
    return example_program()


@pytest.fixture(scope="session")
def saved(executable: Executable, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small model as an artifact; it is not to be changed."""
    path = tmp_path_factory.mktemp("cpp") / "net.hetero"
    executable.save(path)
    return path
