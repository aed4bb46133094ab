"""A limit of open files that is too low is raised, or said before anything fails for it."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest


@pytest.mark.parametrize(("hard", "status"), [(16, 2), (200, 0)])
def test_a_low_limit_is_raised_or_told(hard: int, status: int) -> None:
    """At 11 files the model was called damaged, at 8 there was a traceback of an import."""
    done = subprocess.run(
        [sys.executable, "-m", "tvm_hetero", "solvers"],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (16, hard)),
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == status, done.stderr
    if status:
        assert "16 files open at once, and 64 are needed: raise ulimit -n" in done.stderr
        assert not done.stdout
