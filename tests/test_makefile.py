"""The Makefile: each target has one recipe, so that no one takes another one's place."""

from __future__ import annotations

import os
import re
import subprocess
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_no_target_is_overridden() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = Counter(re.findall(r"^([A-Za-z$(][^:=\n]*):(?!=)", text, flags=re.M))
    assert targets["test"] == targets["fuzz"] == 1
    assert [name for name, count in targets.items() if count > 1] == []


def test_make_says_nothing_but_what_it_would_do() -> None:
    # `make test` runs this too: what it tells its children is not for another make.
    alone = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
    made = subprocess.run(
        ["make", "--dry-run", "demo", "test", "fuzz"],
        cwd=ROOT, env=alone, capture_output=True, text=True,
    )  # fmt: skip
    assert made.returncode == 0
    assert made.stderr == ""
