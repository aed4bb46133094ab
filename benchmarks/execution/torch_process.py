"""Programs for another Python, whose PyTorch sees a GPU: a process each, nothing of ours in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

_SECONDS = 120
_OURS = ("PYTHONPATH", "LD_LIBRARY_PATH", "PYTHONHOME")


def run_torch(python: str, program: Path, *arguments: str) -> dict[str, float]:
    """What a program prints as its last line; nothing, and what it said, where it fails."""
    environment = {name: value for name, value in os.environ.items() if name not in _OURS}
    command = [python, str(program), *arguments]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment, timeout=_SECONDS
        )
    except subprocess.TimeoutExpired:
        print(f"{program.name} had not ended after {_SECONDS} s", file=sys.stderr)
        return {}
    if done.returncode or not done.stdout:
        print(f"{program.name} failed: {done.stderr[-800:]}", file=sys.stderr)
        return {}
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found
