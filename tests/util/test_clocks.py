"""No wait, deadline or measurement hangs on the clock that jumps: that one is for dates alone."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_JUMPS = re.compile(r"time\.time\(|time_ns\(|datetime\.now\(|utcnow\(|system_clock|gettimeofday")
# What tells somebody a date; a duration is never made of two of these.
_DATES = {
    "tvm_hetero/serve/page/snapshot.py",  # when the page was made
    "tvm_hetero/serve/traces/spans.py",  # the end of a span; its beginning is that less a duration
    "tvm_hetero/serve/text/chat_template.py",  # today, for templates that say it
    "tvm_hetero/serve/http/answer_writer.py",  # the header Date
    "tvm_hetero/serve/models/statistics.py",  # when a model was last asked
    "tvm_hetero/serve/openai/chat.py", "tvm_hetero/serve/openai/completions.py",  # created
}  # fmt: skip


def test_the_clock_that_jumps_is_read_for_dates_alone() -> None:
    readers = set()
    for folder in ("tvm_hetero", "passes", "cost_models", "src", "include"):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in {".py", ".cc", ".h"} and _JUMPS.search(path.read_text("utf-8")):
                readers.add(str(path.relative_to(ROOT)))
    assert readers == _DATES
