"""How this project's docstrings are read for the reference: an extension of Sphinx.

Parameters and attributes are ``name : what it is``, without types, which signatures have. To
numpydoc what stands behind the colon is a type; so the text goes to a line of its own.
"""

from __future__ import annotations

import re
from typing import Any

_SECTION = re.compile(r"^(\w[\w ]*)$")
_ENTRY = re.compile(r"^(\*{0,2}\w+(?:, \*{0,2}\w+)*) : (.+)$")
_OF_NAMES = ("Parameters", "Attributes")


def split_entries(lines: list[str]) -> list[str]:
    """A docstring's lines, its entries on two lines: the name, and what it is."""
    made: list[str] = []
    section = ""
    for line, rule in zip(lines, [*lines, ""][1:], strict=True):
        if _SECTION.match(line) and rule and set(rule) == {"-"}:
            section = line
        entry = _ENTRY.match(line) if section in _OF_NAMES else None
        made += _entry(entry[1].split(", "), entry[2]) if entry else [line]
    return made


def _entry(names: list[str], text: str) -> list[str]:
    """Several names with one text: it is the last one's, to which the others point."""
    *others, last = names
    pointing = [line for name in others for line in (name, f"    see `{last}`")]
    return [*pointing, last, f"    {text}"]


def setup(app: Any) -> dict[str, bool]:
    """Run before and after napoleon, whose priority is 500."""
    from sphinx.domains.python import PyObject

    for field in PyObject.doc_field_types:
        if field.name == "variable":
            field.label = "Attributes"  # what they are called in docstrings
    values = ValueDocstrings()
    app.connect("autodoc-process-docstring", values.keep, priority=300)
    app.connect("autodoc-process-docstring", _process, priority=400)
    app.connect("autodoc-process-docstring", values.restore, priority=600)
    return {"parallel_read_safe": True}


def _process(app: Any, what: str, name: str, obj: object, options: Any, lines: list[str]) -> None:
    lines[:] = split_entries(lines)


class ValueDocstrings:
    """Keeps napoleon from properties: it takes what stands before a colon for a type."""

    def __init__(self) -> None:
        self._kept: dict[str, list[str]] = {}

    def keep(
        self, app: Any, what: str, name: str, obj: object, options: Any, lines: list[str]
    ) -> None:
        """Before napoleon."""
        if what in ("property", "attribute", "data"):
            self._kept[name] = list(lines)

    def restore(
        self, app: Any, what: str, name: str, obj: object, options: Any, lines: list[str]
    ) -> None:
        """After it."""
        lines[:] = self._kept.pop(name, lines)
