"""Durations and deadlines are counted on a clock that nobody sets.

The time of day jumps (a virtual machine wakes up, a battery was empty, someone sets it), so what
reads it only tells it to people or other programs. A new reader of it is named here, with why.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent

# What tells the time of day: HTTP's Date, OpenAI's `created`, Triton's `last_inference`, events on
# the server's page, spans of OpenTelemetry, dates in a chat's template.
TELLS_TIME = {
    "tvm_hetero/serve/core/events.py",
    "tvm_hetero/serve/http/answer_writer.py",
    "tvm_hetero/serve/models/statistics.py",
    "tvm_hetero/serve/openai/chat.py",
    "tvm_hetero/serve/openai/completions.py",
    "tvm_hetero/serve/page/snapshot.py",
    "tvm_hetero/serve/text/chat_template.py",
    "tvm_hetero/serve/traces/spans.py",
}
_PYTHON = re.compile(
    r"\btime\.time\b(?!`)|\btime_ns\b|\bdatetime\.(utc)?now\b|from time import|CLOCK_REALTIME"
)
_CPP = re.compile(r"system_clock|high_resolution_clock|CLOCK_REALTIME|gettimeofday|\btime\(")


def readers(pattern: re.Pattern[str], *globs: str) -> set[str]:
    """The files in which the pattern is."""
    paths = [path for glob in globs for path in ROOT.glob(glob)]
    assert paths
    return {
        path.relative_to(ROOT).as_posix()
        for path in paths
        if pattern.search(path.read_text(encoding="utf-8"))
    }


def test_python_reads_the_time_of_day_only_to_tell_it() -> None:
    found = readers(_PYTHON, "tvm_hetero/**/*.py", "passes/*.py", "cost_models/**/*.py")
    assert found == TELLS_TIME


def test_cpp_does_not_read_it() -> None:
    assert not readers(_CPP, "src/*/*.cc", "src/*/*.h", "include/tvm_hetero/*.h")
