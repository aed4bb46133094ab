"""The page's own files: read once, and no others can be asked for.

A browser is told to load nothing from elsewhere, to run no script but these files, and to let no
other page put this one into a frame. The files are open to all: they say nothing of the server, and
the page that asks for a key is one of them.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import ClassVar

from tornado.web import HTTPError

from tvm_hetero.report.schedule.gantt import STYLE
from tvm_hetero.serve.http.door_checks import Permission
from tvm_hetero.serve.http.handler import ApiHandler

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_STATIC = Path(__file__).parent / "static"
_TYPES = {
    ".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
}  # fmt: skip


@cache
def page_files() -> dict[str, bytes]:
    """All files by name. The style of charts is that of reports."""
    files = {path.name: path.read_bytes() for path in _STATIC.iterdir() if path.suffix in _TYPES}
    files["gantt.css"] = STYLE.encode()
    return files


class PageFile(ApiHandler):
    """``GET /`` and ``GET /page/FILE``."""

    permission: ClassVar[Permission] = Permission.OPEN

    def get(self, name: str = "page.html") -> None:
        """One of the files."""
        files = page_files()
        if name not in files:
            raise HTTPError(404)
        self.set_header("Content-Type", _TYPES[Path(name).suffix])
        self.set_header("Content-Security-Policy", POLICY)
        self.set_header("Referrer-Policy", "no-referrer")
        self.set_header("Cross-Origin-Resource-Policy", "same-origin")
        self.set_header("Cross-Origin-Opener-Policy", "same-origin")
        self.set_header("Cache-Control", "no-cache")
        self.finish(files[name])
