"""The ``tvm-hetero`` command: verbs, and what happens to errors.

An error that is meant for the user is one red line on stderr and an exit status; a traceback is
shown with ``--debug`` only. Ctrl-C ends with status 130, as shells expect.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import traceback
import warnings
from typing import Annotated, Any, NoReturn, TextIO

import typer
from typer.core import TyperCommand, TyperGroup

from tvm_hetero import __version__
from tvm_hetero.cli.shared.console import complain
from tvm_hetero.cli.shared.file_limit import too_few_files
from tvm_hetero.cli.shared.interrupt import show_cursor
from tvm_hetero.cli.verb_table import VERBS, VerbTable
from tvm_hetero.errors import HeteroError, UsageError
from tvm_hetero.processes.signals import INTERRUPTED, the_watch
from tvm_hetero.processes.torch_import import hide_torch
from tvm_hetero.util.untrusted_names import printable

_DEBUG = "--debug"
_GIVEN = "tvm_hetero.given"  # where the context has the arguments
# Verbs that measure, and keep it.
_MEASURING = ("devices", "partition", "problem", "refine", "demo", "tune")
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Verbs(TyperGroup):
    """The group of all verbs; turns exceptions into messages and exit statuses."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**{**given, "commands": None})
        self.commands = VerbTable()

    def list_commands(self, ctx: Any) -> list[str]:
        """All verbs, in the order of the help; none is loaded."""
        return list(VERBS)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The verbs with a line each, as the help shows them; none is loaded."""
        with formatter.section("Commands"):
            formatter.write_dl(list(VERBS.items()))

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """What a shell offers while a verb is typed: its name and line; none is loaded."""
        loaded = self.commands
        self.commands = {name: TyperCommand(name, short_help=line) for name, line in VERBS.items()}
        try:
            return list(super().shell_complete(ctx, incomplete))
        finally:
            self.commands = loaded

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Accept ``--debug`` after the verb too, where people who need it will add it."""
        if _DEBUG in args:
            args = [_DEBUG, *(arg for arg in args if arg != _DEBUG)]
        ctx.meta[_GIVEN] = list(args)
        return list(super().parse_args(ctx, args))

    def invoke(self, ctx: Any) -> Any:
        """Run the verb. Bugs (exceptions that are not ours) keep their traceback."""
        warnings.showwarning = _show_warning
        if os.environ.get("NO_COLOR"):  # https://no-color.org; typer does not look
            ctx.color = False
        if (watch := the_watch()) is not None:
            watch.last_words = lambda: f"{show_cursor()}interrupted; {_end_of(ctx)}\n"
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            _say_interrupted(ctx)
        except Exception as error:
            if watch is None or not watch.number or isinstance(error, typer.Exit):
                _explain(ctx, error)
            _say_interrupted(ctx)  # it is what a library made of the interruption
        raise typer.Exit(INTERRUPTED)


def _explain(ctx: Any, error: Exception) -> NoReturn:
    """What went wrong, in a line, and the status; a bug is raised again."""
    if isinstance(error, HeteroError):
        if ctx.params.get("debug"):
            traceback.print_exc()
        complain("error", error)
        raise typer.Exit(error.exit_status) from None
    # Files are explained by name, in `documents`; this is standard output.
    if isinstance(error, OSError) and error.errno in _FULL:
        drop_output()
        complain("error", f"the output cannot be written: {error.strerror}")
        raise typer.Exit(1) from None
    if isinstance(error, OSError) and (reason := _reason_of_system(ctx, error)):
        _explain(ctx, UsageError(reason))
    raise error


def _reason_of_system(ctx: Any, error: OSError) -> str | None:
    """What the system has against a name that was given; None if no such name is to blame."""
    if error.strerror and isinstance(error.filename, str | bytes | os.PathLike):
        name = os.fsdecode(error.filename)
        given = any(len(arg) > 1 and arg in name for arg in ctx.meta.get(_GIVEN, ()))
        shown = f"{printable(name, 300)}: {error.strerror}; give another name, or mend that"
        return shown if given else None
    try:
        os.getcwd()
    except FileNotFoundError:
        gone = error.errno in {errno.ENOENT, errno.ESTALE}
        return "the folder in which this was started is gone; change to another" if gone else None
    return None


def _say_interrupted(ctx: Any) -> None:
    if (watch := the_watch()) is not None:
        watch.last_words = str  # it need not say it again
    complain("interrupted", _end_of(ctx), colour="yellow", between="; ")


def _end_of(ctx: Any) -> str:
    """What an interruption leaves behind: a verb's results may be written and not yet shown."""
    kept = ctx.invoked_subcommand in _MEASURING
    return "what was measured is kept" if kept else "no file is half-written"


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Our warnings are sentences for the user; those of libraries are of no use to them."""
    if issubclass(category, UserWarning):
        complain("warning", message, colour="yellow")


app = typer.Typer(
    name="tvm-hetero",
    cls=Verbs,
    help="One neural network on heterogeneous devices at once, scheduled with a proof of quality.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tvm-hetero {__version__}")
        raise typer.Exit


@app.callback()
def options(
    debug: Annotated[bool, typer.Option(_DEBUG, help="Show tracebacks of errors.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Options of every verb."""


def main(argv: list[str] | None = None) -> int:
    """Run the command line and return its exit status.

    Without `argv` it is that of this process, which is the command's alone.
    """
    if argv is None:
        hide_torch()
        _open_closed_streams()
        if why := too_few_files():
            complain("error", why)
            return UsageError.exit_status
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character shall not turn a report into a traceback.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        app(argv, prog_name="tvm-hetero")
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 1
    except KeyboardInterrupt:  # before a verb began, or a second one
        return INTERRUPTED
    return 0


def drop_output() -> None:
    """Let what standard output still holds go nowhere: it cannot be written.

    Else Python tries once more as it ends, says so in its own words, and ends with status 120.
    """
    nowhere = os.open(os.devnull, os.O_WRONLY)
    with contextlib.suppress(OSError, ValueError):  # a stream that has no number, or is closed
        os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _open_closed_streams() -> None:
    """Where the shell closed an output (``>&-``), what is written goes nowhere.

    Otherwise there is no stream to print to, and the next file that is opened takes its number.
    """
    for name, number in (("stdout", 1), ("stderr", 2)):
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            if nowhere != number:
                os.dup2(nowhere, number)
                os.close(nowhere)
            setattr(sys, name, open(number, "w", encoding="utf-8"))  # noqa: SIM115
