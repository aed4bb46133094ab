"""ONNX's native code in this very process, for tests of what operators give.

In a child it is in tests of the importer, of loading, of isolation, and in all that partition a
model; to fork for each of some thousand small ones takes a minute.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tvm_hetero.frontends.onnx import importer, load
from tvm_hetero.frontends.onnx.model import isolated_rewrite


@pytest.fixture(autouse=True, scope="package")
def inline() -> Iterator[None]:
    """Nothing is forked, as in such a child."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (importer, load, isolated_rewrite):
            patch.setattr(module, "is_isolated", lambda: True)
        yield
