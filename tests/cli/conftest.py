from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.report import samples


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder with problem.json, its schedule.json, and wrong.json that breaks two rules."""
    problem = samples.problem()
    problem.save(tmp_path / "problem.json")
    samples.schedule(problem).save(tmp_path / "schedule.json")
    text = (tmp_path / "schedule.json").read_text(encoding="utf-8")
    (tmp_path / "wrong.json").write_text(text.replace('"start": 0.002', '"start": 0.001'))
    return tmp_path


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cache of our own, so that a user's measured costs are neither used nor changed."""
    path = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TVM_HETERO_CACHE", str(path))
        yield path
