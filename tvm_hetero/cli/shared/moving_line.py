"""The line of a running step on a terminal: what is done, and how much time is left.

What is left is said by the parts that are done; where there are none by the limit, else by what the
step took the last time; and where none of these is known nothing is said.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

from tvm_hetero.cli.shared.phase_log import words_left

# Columns of the bar, of all but the text, and of the text.
_BAR = 10
_REST = 52
_LEAST_TEXT, _MOST_TEXT = 12, 60


def moving_line(to_stderr: bool) -> Any:
    """A rich progress line without markup, which vanishes when it is done."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn
    from rich.progress import ProgressColumn as Column
    from rich.progress import TimeElapsedColumn as Elapsed
    from rich.table import Column as Place
    from rich.text import Text

    class Said(Column):
        """What a function says of a task; whole, however narrow the terminal is."""

        def __init__(self, say: Callable[[Any], str]) -> None:
            super().__init__(Place(no_wrap=True))
            self._say = say

        def render(self, task: Any) -> Text:
            return Text(self._say(task))

    console = Console(stderr=to_stderr)
    text = TextColumn("{task.description}", markup=False)
    bar = BarColumn(_BAR)
    columns = (SpinnerColumn(), text, bar, Said(count_parts), Elapsed(), Said(time_left))
    return Progress(*columns, console=console, transient=True)


def text_width() -> int:
    """Columns for what a running step is at: what the rest of the line leaves."""
    return max(_LEAST_TEXT, min(_MOST_TEXT, shutil.get_terminal_size().columns - _REST))


def begin_task(line: Any, text: str, most: float | None = None, usual: float | None = None) -> Any:
    """A task of a line whose parts are not known (yet).

    Parameters
    ----------
    most : seconds that it may take; usual : those that it took the last time.
    """
    return line.add_task(text, total=None, most=most, usual=usual)


def count_parts(task: Any) -> str:
    """Parts that are done, of how many."""
    return "" if task.total is None else f"{task.completed:.0f}/{task.total:.0f}"


def time_left(task: Any) -> str:
    """How much time a task of a line has left, as far as is known."""
    if task.total is not None:
        left = task.time_remaining
        return f"about {left:.0f} s left" if left else ""
    return words_left(task.elapsed or 0.0, task.fields["most"], task.fields["usual"])
