"""What the verbs print: numbered steps with their seconds, and lines of text.

Text goes out through `typer.secho`, which knows nothing of markup and drops colours where there
is no terminal, so names from a model cannot restyle anything; `printable` takes care of control
characters. rich is used for the moving line of a running step alone, and only on a terminal;
elsewhere `phase_log` names what takes long.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import typer

from tvm_hetero.cli.shared.moving_line import begin_task, moving_line, text_width
from tvm_hetero.cli.shared.phase_log import PhaseLog
from tvm_hetero.errors import LIST_LINE
from tvm_hetero.util.units import format_seconds
from tvm_hetero.util.untrusted_names import printable, printable_lines

Progress = Callable[[str, int, int], None]
_TITLE = 26  # columns for the title of a step
_CHART = (60, 140)  # columns of a chart: fewer cannot be read, more are too far apart


def chart_width() -> int:
    """Columns for a chart: the terminal's, within reason; 100 where there is no terminal."""
    least, most = _CHART
    return max(least, min(most, shutil.get_terminal_size((100, 24)).columns))


def complain(what: str, message: object, colour: str = "red", between: str = ": ") -> None:
    """``error: message`` on stderr, the first word in colour: one line, or a list's below it.

    A list's lines begin with two spaces, so that no text from a file looks like a line of ours.
    """
    typer.secho(what, fg=colour, bold=True, nl=False, err=True)
    lines = (printable(line, limit=None) for line in str(message).split(LIST_LINE))
    typer.secho(between + LIST_LINE.join(lines), err=True)


class Steps:
    """Numbered steps. With `quiet`, all of this goes to stderr and stdout stays for JSON."""

    def __init__(self, quiet: bool = False) -> None:
        self.quiet = quiet
        self.count = 0
        self.seconds: dict[str, float] = {}

    def say(self, text: str = "", colour: str | None = None, bold: bool = False) -> None:
        """A piece of text of ours; names in it have been made printable.

        What some report forgot is made so here, but for a name's newlines, which look like ours.
        """
        text = printable_lines(text.split("\n"))
        typer.secho(text, fg=colour, bold=bold or None, err=self.quiet)

    def head(self, text: str) -> None:
        """A heading."""
        self.say()
        self.say(text, bold=True)

    def record(self, title: str, seconds: float, note: str = "") -> None:
        """Print a finished step and remember what it took."""
        self.count += 1
        self.seconds[title] = self.seconds.get(title, 0.0) + seconds
        number, dots = f"[{self.count}]", "." * max(2, _TITLE - len(title))
        typer.secho(f"{number:>4} ", fg="cyan", nl=False, err=self.quiet)
        self.say(
            f"{title} {dots} {format_seconds(seconds):>8}  {printable(note, limit=None)}".rstrip()
        )

    @contextmanager
    def step(self, title: str, most: float | None = None, of: object = "") -> Iterator[ConsoleStep]:
        """A step: shown while it runs, printed with its seconds when done."""
        with self.live(title, most, of) as step:
            start = time.perf_counter()
            yield step
            seconds = time.perf_counter() - start
        self.record(title, seconds, step.note)

    @contextmanager
    def live(self, title: str, most: float | None = None, of: object = "") -> Iterator[ConsoleStep]:
        """Show `title` and its progress while the block runs; print nothing afterwards.

        A terminal has a line that moves; elsewhere a phase that takes long is named on stderr.

        Parameters
        ----------
        most : how many seconds it may take, where it has a limit.
        of : what its time depends on, such as a file; without parts or a limit, how much time is
            left is said by what the step took of it the last time.
        """
        from tvm_hetero.cli.shared.step_times import last_time, remember

        key, start = f"{title}: {of}", time.perf_counter()
        if self.on_terminal():
            with moving_line(self.quiet) as line:
                yield ConsoleStep(self, line, begin_task(line, title, most, last_time(key)))
            is_long = True
        else:
            log = PhaseLog(title, most, lambda: last_time(key), _say_aside)
            try:
                yield ConsoleStep(self, log=log)
            finally:
                log.end()
            is_long = log.has_spoken
        if most is None and is_long:  # else that says what is left
            remember(key, time.perf_counter() - start)

    def on_terminal(self) -> bool:
        """Whether somebody looks on, and lines can be renewed."""
        return bool(typer.get_text_stream("stderr" if self.quiet else "stdout").isatty())


def _say_aside(line: str) -> None:
    """A line of a log that is no part of the output."""
    typer.secho(line, err=True)


class ConsoleStep:
    """A running step. `progress` is the callback that long work reports to.

    On a terminal it moves a bar; elsewhere each kind of work is named once, when it begins, so
    that a log tells what a silent minute is spent on, and `PhaseLog` tells how long it still takes.
    """

    def __init__(
        self, steps: Steps, line: Any = None, task: Any = None, log: PhaseLog | None = None
    ) -> None:
        self.note = ""
        self._steps, self._line, self._task, self._log = steps, line, task, log
        self._named: set[str] = set()

    def progress(self, what: str, done: int, total: int) -> None:
        """`done` of `total` parts are done (0: not known); `what` is being worked on."""
        text = printable(what, text_width())
        if not total:
            self.begin(what)
            return
        if self._line is not None:
            self._line.update(self._task, description=text, completed=done, total=total)
        elif text not in self._named:
            self._named.add(text)
            self._steps.say(f"     ({text}: {total})")
        if self._log is not None:
            self._log.progress(text, done, total)

    def counter(self, what: str) -> Callable[[int, int], None]:
        """`progress` of one kind of work, which a log has named by the step's title already."""
        if self._line is not None:
            return lambda done, total: self.progress(what, done, total)
        if self._log is not None:
            return partial(self._log.progress, printable(what, text_width()))
        return lambda _done, _total: None

    def begin(self, what: str, most: float | None = None) -> None:
        """Of several kinds of work in this step the next one, whose parts are not known (yet).

        `most` is how many seconds it may take, where it has a limit.
        """
        text = printable(what, text_width())
        if self._line is not None:
            self._line.remove_task(self._task)
            self._task = begin_task(self._line, text, most)
        elif self._log is not None:
            self._log.begin(text, most)

    def tell(self, text: str) -> None:
        """What is being done now: on a terminal in the moving line, else a line on stderr."""
        if self._line is not None:
            self._line.update(self._task, description=printable(text, text_width()))
        else:
            _say_aside(f"     {printable(text, limit=None)}")
