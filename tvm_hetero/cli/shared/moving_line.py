"""The line of a running step on a terminal: what is done, and how much time is left.

What is left is said by the parts that are done; where there are none by the limit, else by what the
step took the last time; and where none of these is known nothing is said.
"""

from __future__ import annotations

from typing import Any


def moving_line(to_stderr: bool) -> Any:
    """A rich progress line without markup, which vanishes when it is done."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn
    from rich.progress import ProgressColumn as Column
    from rich.progress import TimeElapsedColumn as Elapsed
    from rich.text import Text

    class TimeLeft(Column):
        """As the columns of rich, but silent where nothing is known."""

        def render(self, task: Any) -> Text:
            return Text(time_left(task))

    text = TextColumn("{task.description}", markup=False)
    console = Console(stderr=to_stderr)
    columns = (SpinnerColumn(), text, BarColumn(), MofNCompleteColumn(), Elapsed(), TimeLeft())
    return Progress(*columns, console=console, transient=True)


def begin_task(line: Any, text: str, most: float | None = None, usual: float | None = None) -> Any:
    """A task of a line whose parts are not known (yet).

    Parameters
    ----------
    most : seconds that it may take; usual : those that it took the last time.
    """
    return line.add_task(text, total=None, most=most, usual=usual)


def time_left(task: Any) -> str:
    """How much time a task of a line has left, as far as is known."""
    if task.total is not None:
        left = task.time_remaining
        return f"about {left:.0f} s left" if left else ""
    elapsed, most, usual = task.elapsed or 0.0, task.fields["most"], task.fields["usual"]
    if most is not None:
        return f"at most {max(0.0, most - elapsed):.0f} s left"
    if usual is None:
        return ""
    if elapsed > usual:
        return f"it took {usual:.0f} s the last time"
    return f"about {usual - elapsed:.0f} s left, as the last time"
