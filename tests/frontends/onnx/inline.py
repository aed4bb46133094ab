"""ONNX's native code in this very process, for tests of what operators give and graphs become.

In a child it is in tests of the importer, of loading, of isolation, and in all that partition a
model; to fork for each of some thousand small ones takes a minute (a process that has PyTorch and
TVM in memory forks in 50 ms).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tvm_hetero.frontends.onnx import importer, load
from tvm_hetero.frontends.onnx.model import isolated_rewrite


@contextmanager
def no_children() -> Iterator[None]:
    """Nothing is forked meanwhile, as in such a child."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (importer, load, isolated_rewrite):
            patch.setattr(module, "is_isolated", lambda: True)
        yield


@pytest.fixture(autouse=True, scope="package")
def inline() -> Iterator[None]:
    """No children for a folder, whose conftest.py imports this."""
    with no_children():
        yield


@pytest.fixture(autouse=True, scope="module")
def inline_module() -> Iterator[None]:
    """No children for a file that imports this."""
    with no_children():
        yield
