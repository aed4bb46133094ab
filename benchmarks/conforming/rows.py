"""What became of each test, a line each: added to as tests end, so that a run can go on later.

A line bears a digest of the code it was made with; one of other code is of no use to a run, and
the last line of a test holds.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from benchmarks.conforming.children import tried
from benchmarks.conforming.suite import SuiteTest

ROOT = Path(__file__).resolve().parent.parent.parent
# What else the outcomes hang on.
_HARNESS = ("suite.py", "parameters.py", "variants.py", "engines.py")
# Variant -> outcome and reason.
Outcomes = dict[str, tuple[str, str]]
Rows = dict[str, Outcomes]


def digest_of_code(engine: str) -> str:
    """Return a digest of what an engine's answers hang on: our sources, or its version."""
    if engine == "onnxruntime":
        import onnxruntime

        own = (Path(__file__).parent / "runtime.py").read_bytes()
        return f"{onnxruntime.__version__} {hashlib.sha256(own).hexdigest()[:8]}"
    found = hashlib.sha256()
    package = (p for p in (ROOT / "tvm_hetero").rglob("*") if p.suffix in {".py", ".so"})
    for path in [*sorted(package), *(Path(__file__).with_name(name) for name in _HARNESS)]:
        found.update(path.read_bytes())
    return found.hexdigest()[:16]


def read_rows(path: Path, digest: str | None = None) -> Rows:
    """Return the last line of each test, of this code or of any."""
    found: Rows = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        row = json.loads(line)
        if digest is None or row["code"] == digest:
            found[row["test"]] = {k: (o, why) for k, (o, why) in row["outcomes"].items()}
    return found


def run_suite(
    tests: Sequence[SuiteTest],
    path: Path,
    engine: str = "ours",
    at_once: int = 2,
    told: Callable[[int, int], object] = lambda done, of: None,
) -> Rows:
    """Try what the file does not have yet of this code, and return the rows of all these tests."""
    digest = digest_of_code(engine)
    rows = read_rows(path, digest)
    left = [test for test in tests if test.name not in rows]
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        for i, (test, outcomes) in enumerate(tried(left, engine, at_once)):
            rows[test.name] = outcomes
            row = {"test": test.name, "code": digest, "outcomes": outcomes}
            file.write(json.dumps(row) + "\n")
            file.flush()
            told(i + 1, len(left))
    return {test.name: rows[test.name] for test in tests}


def lost(before: Rows, after: Rows, variants: Iterable[str]) -> list[str]:
    """Return a line for each test that was right before and is so no longer."""
    found = []
    for name in sorted(before.keys() & after.keys()):
        for variant in variants:
            if before[name].get(variant, ("",))[0] == "right":
                outcome, reason = after[name].get(variant, ("not begun", ""))
                if outcome != "right":
                    found.append(f"{name} ({variant}): right -> {outcome}: {reason}")
    return found
