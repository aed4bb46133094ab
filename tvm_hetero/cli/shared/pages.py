"""Pages that a verb writes beside its answer: told first, then written.

A disk may be full after minutes of work. The answer is on the screen or on stdout by then, so a
page that cannot be written costs the page alone.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tvm_hetero.cli.shared.console import Steps
from tvm_hetero.errors import FormatError
from tvm_hetero.report.schedule.html import Page, report_html
from tvm_hetero.util.documents import write_atomic
from tvm_hetero.util.untrusted_names import printable


def write_page(steps: Steps, path: Path | None, option: str, page: Callable[[], Page]) -> None:
    """Write the page of an answer that has been told, if a path for it was given.

    Raises
    ------
    FormatError
        If it cannot be written.
    """
    if path is None:
        return
    try:
        write_atomic(path, report_html(page()))
    except FormatError as error:
        raise FormatError(
            f"{option} {error}; the answer is above, only its page is lost: make room or name "
            "another file, and call again"
        ) from None
    steps.say(f"wrote {printable(path, limit=None)}", "green")
