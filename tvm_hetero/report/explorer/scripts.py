"""The page's scripts, as one text that stands in the page itself.

They are plain scripts without imports, in the order in which one builds on another: what counts
comes first and needs no page, so that tests run it under node; then what draws and listens.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files

# What counts: values, times, rules.
CORE = (
    "names.js", "numbers.js", "problem.js", "simulate.js", "value.js", "memory.js", "inputs.js",
    "judge.js", "plan.js",
)  # fmt: skip
# What draws and listens.
PAGE = ("chart.js", "compare.js", "explorer.js")


@cache
def read_scripts(names: tuple[str, ...]) -> str:
    """Some of the scripts, joined; they share one scope."""
    folder = files(__package__) / "static"
    return "\n".join((folder / name).read_text(encoding="utf-8") for name in names)


@cache
def page_script() -> str:
    """All of them in a scope of their own, strict."""
    return f'(() => {{\n"use strict";\n{read_scripts((*CORE, *PAGE))}\n}})();\n'


def policy_of(script: str) -> str:
    """What a security policy calls this very script, so that no other one runs."""
    digest = hashlib.sha256(script.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
