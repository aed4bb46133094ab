"""How long steps took the last time, for those that have no parts to count.

As ninja's log does for its estimates. Read and written only where somebody looks on, or a log is
told of the step; a file that says nonsense, or cannot be written, says nothing.
"""

from __future__ import annotations

import contextlib
import json
import math
from pathlib import Path

from tvm_hetero.errors import HeteroError
from tvm_hetero.util.cache_dir import cache_dir
from tvm_hetero.util.documents import MAX_DOCUMENT_BYTES, read_text, write_atomic

# Shorter steps need no estimate (s); of longer ones the last so many are known, but none whose name
# is longer than this, as names in files may be.
LEAST = 1.0
MOST_STEPS = 500
LONGEST_KEY = 300


def last_time(key: str) -> float | None:
    """The seconds that a step took when it last came to its end; None where that is not known."""
    return _read().get(key)


def remember(key: str, seconds: float) -> None:
    """Note what a step took."""
    if seconds < LEAST or len(key) > LONGEST_KEY:
        return
    known = _read()
    known.pop(key, None)
    known[key] = seconds
    kept = dict(list(known.items())[-MOST_STEPS:])
    with contextlib.suppress(HeteroError):
        write_atomic(_file(), json.dumps(kept, indent=0))


def _file() -> Path:
    return cache_dir() / "step_seconds.json"


def _read() -> dict[str, float]:
    try:
        found = json.loads(read_text(_file(), MAX_DOCUMENT_BYTES))
    except (HeteroError, ValueError, RecursionError):
        return {}
    rows = found.items() if isinstance(found, dict) else ()
    return {key: float(value) for key, value in rows if _is_seconds(value)}


def _is_seconds(value: object) -> bool:
    return isinstance(value, float) and math.isfinite(value) and value > 0
