"""What tests of the C++ loader share: the example program."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cpp.cpp_build import example_program


@pytest.fixture(scope="session")
def program() -> Path:
    """The example program, built."""
    return example_program()
