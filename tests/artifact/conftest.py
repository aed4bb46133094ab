"""What tests of artifacts share: one that may be changed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest


@pytest.fixture
def copied(saved: Path, tmp_path: Path) -> Path:
    """The small model as an artifact of the test's own."""
    return Path(shutil.copytree(saved, tmp_path / "net.hetero"))
