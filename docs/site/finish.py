"""What is done to pages once Sphinx has written them: an extension of it.

- Files that pages link to as they are, results and reports of tutorials, go along.
- What axe-core objects to in the theme's HTML is mended: headings without a level, two landmarks
  without names, empty cells that call themselves headings.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

_MENDED = tuple(
    (re.compile(pattern), better)
    for pattern, better in (
        (r'role="heading">', 'role="heading" aria-level="2">'),
        (r'(<aside class="sidebar-drawer")>', r'\1 aria-label="site">'),
        (r'(<aside class="toc-drawer[^"]*")>', r'\1 aria-label="page">'),
        (r'<th class="head[^"]*"><p></p></th>', "<td></td>"),
    )
)
_WITH_PAGES = (".json", ".jsonl", ".html")


def setup(app: Any) -> dict[str, bool]:
    """Run at the end."""
    app.connect("build-finished", _finish)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _finish(app: Any, error: Exception | None) -> None:
    copy_files(Path(app.srcdir), Path(app.outdir))
    for page in Path(app.outdir).rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        if (mended := mend(text)) != text:
            page.write_text(mended, encoding="utf-8")


def copy_files(source: Path, target: Path) -> None:
    """Copy results and reports to where the pages that link to them are."""
    for file in sorted(source.rglob("*")):
        place = file.relative_to(source)
        if file.suffix in _WITH_PAGES and place.parts[0] in ("results", "tutorials"):
            (target / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, target / place)


def mend(text: str) -> str:
    """A page of the theme, as assistive technology wants it; once or twice is the same."""
    for pattern, better in _MENDED:
        text = pattern.sub(better, text)
    return text
