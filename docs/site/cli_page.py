"""The page of all verbs and options, from the command line itself."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from typing import Any

import typer

from tvm_hetero.cli.main import app

NAME = "tvm-hetero"


def cli_page() -> str:
    """All verbs, each with its arguments and options, in MyST Markdown."""
    group: Any = typer.main.get_command(app)
    parts = [
        "# Command line",
        "Made from the command line itself: what `--help` says of each verb. How they are used "
        "together: [usage](../docs/usage.md).",
        "## Options of every verb",
        _table(group),
    ]
    for name, command in sorted(group.commands.items()):
        usage = " ".join([NAME, name, "[OPTIONS]", *_arguments(command)])
        parts += [f"## {name}", f"```text\n{usage}\n```", _prose(command.help), _table(command)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _arguments(command: Any) -> list[str]:
    return [str(each.metavar) for each in command.params if each.param_type_name == "argument"]


def _table(command: Any) -> str:
    """A row for each argument and option; hidden ones and ``--help`` are left out."""
    rows = [f"| {names} | {text} |" for names, text in _described(command)]
    return "\n".join(["| option | what it does |", "|---|---|", *rows]) if rows else ""


def _described(command: Any) -> Iterable[tuple[str, str]]:
    """Spellings and help, as ``--help`` has them."""
    context = command.context_class(command, info_name=NAME)
    for param in command.params:
        record = param.get_help_record(context)
        if param.name == "help" or record is None:
            continue
        names = param.metavar if param.param_type_name == "argument" else record[0]
        names = re.sub(r"<([a-z]+)[^>]*>", lambda kind: kind[1].upper(), names)
        yield f"`{names}`".replace("|", "\\|"), _prose(record[1]).replace("|", "\\|")


def _prose(text: str | None) -> str:
    """A help text; what stands between quotation marks there, and options, are code here."""
    clean = " ".join(inspect.cleandoc(text or "").replace("\b", "").replace("<", "&lt;").split())
    quoted = re.sub(r"(?<!\w)'([\w./ -]+)'(?!\w)", r"`\1`", clean).replace("[", "\\[")
    return re.sub(r"(?<![\w`-])(--[a-z][\w-]*)(?![\w`])", r"`\1`", quoted)
