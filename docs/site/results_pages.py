"""Each file of benchmarks/results as a table that can be sorted, with where and when it was made.

A page shows all rows of its file and nothing else; the file itself lies beside it. What a file does
not say of itself (the older ones have no machine, few have a day) is said to be unknown, but for
the commit: that in which git last saw the file change.
"""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.commit_history.page import history_page
from benchmarks.commit_history.rows import read_history

_UNKNOWN = "not recorded"
HISTORY = "history"
_LAST_CHANGE = " (last change)"
# The share of columns that rows of one table have in common.
_ALIKE = 0.6
_BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
_SCRIPT = re.compile(r"benchmarks/(\w+)\.py")  # as older files name theirs
Row = Mapping[str, Any]


@dataclass(frozen=True)
class ResultFile:
    """A file of results.

    Attributes
    ----------
    name : below the folder of results, without the extension.
    command : what made it.
    machine, date, commit : where, when and in which state of the sources.
    is_dated : whether the file says that itself; else they are those of its last change.
    head : other facts that stand above the rows.
    rows : by column; what was nested has names as ``quiet.plan``.
    """

    name: str
    command: str
    machine: str
    date: str
    commit: str
    is_dated: bool
    head: Mapping[str, Any]
    rows: tuple[Row, ...]


def read_results(results: Path) -> list[ResultFile]:
    """Read all files of a folder, and ask git when they came."""
    changes = _last_changes(results)
    return [
        read_result(path, results, changes.get(path.relative_to(results).as_posix()))
        for path in sorted(results.rglob("*.json"))
    ]


def read_result(path: Path, results: Path, change: tuple[str, str] | None = None) -> ResultFile:
    """Read a file; day and commit of its last `change` are taken where it has none itself."""
    document = json.loads(path.read_text(encoding="utf-8"))
    date, commit = change or (_UNKNOWN, _UNKNOWN)
    if isinstance(document, list):  # of the oldest ones: no head
        document = {"rows": document}
    rows = tuple(_flat(row) for row in document.pop("rows", None) or _parts(document))
    what = str(document.pop("what", document.pop("benchmark", path.stem)))
    command = _command(what, path.stem)
    if command != what and " " in what and not what.startswith("benchmarks/"):
        document["what"] = what
    machine = _machine(document)
    is_dated = "date" in document and "commit" in document
    return ResultFile(
        path.relative_to(results).with_suffix("").as_posix(), command, machine,
        str(document.pop("date", date)), str(document.pop("commit", commit)), is_dated,
        _flat(document), rows,
    )  # fmt: skip


def _command(what: str, stem: str) -> str:
    """What is typed to make a file: it is in the file, or the file has its benchmark's name."""
    if found := _SCRIPT.match(what):
        return f"python -m benchmarks.{found[1]}{what[found.end() :]}"
    is_one = not what.startswith("python ") and (_BENCHMARKS / f"{stem}.py").is_file()
    return f"python -m benchmarks.{stem}" if is_one else what


def _parts(document: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of a file that has several lists of them, taken out: each says of which it is."""
    lists = [
        key for key, value in document.items()
        if isinstance(value, list) and all(isinstance(row, dict) for row in value)
    ]  # fmt: skip
    rows = [{"part": key, **row} for key in lists for row in document[key]]
    for key in lists:
        del document[key]
    return rows


def _machine(document: dict[str, Any]) -> str:
    """The processor and its cores, taken out of a head."""
    named, cores = document.pop("machine", None), document.pop("cores", None)
    if isinstance(named, dict):
        named, cores = named.get("processor"), named.get("cores")
    if named is None:
        return ", ".join(document.get("gpus", ())) or _UNKNOWN
    return f"{named}, {cores} cores" if cores else str(named)


def _last_changes(results: Path) -> dict[str, tuple[str, str]]:
    """Day and commit of the last change of each file below a folder that git knows of."""
    command = ["git", "log", "--format=>%cs %h", "--name-only", "--relative", "--", "."]
    said = subprocess.run(command, cwd=results, capture_output=True, text=True).stdout
    found: dict[str, tuple[str, str]] = {}
    for commit in said.split(">")[1:]:
        (date, name), files = commit.splitlines()[0].split(), commit.splitlines()[1:]
        for file in filter(None, files):
            found.setdefault(file, (date, name))
    return found


def _flat(row: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """A row whose values are no mappings."""
    found: dict[str, Any] = {}
    for key, value in row.items():
        if isinstance(value, dict):
            found.update(_flat(value, f"{before}{key}."))
        else:
            found[f"{before}{key}"] = value
    return found


def result_page(result: ResultFile) -> str:
    """The page of a file, in MyST Markdown with its table as HTML."""
    of = "" if result.is_dated else " of the last change"
    facts = [
        ("made by", result.command), ("machine", result.machine), (f"date{of}", result.date),
        (f"commit{of}", result.commit), *result.head.items(),
    ]  # fmt: skip
    file = f"{Path(result.name).name}.json"
    parts = [
        f"# {result.name}",
        html_table(("fact", "value"), [(name, _short(value)) for name, value in facts], "facts"),
        f'All {len(result.rows)} rows of <a href="{file}">{file}</a>; a heading sorts by its '
        "column.",
        *map(_rows_table, alike_rows(result.rows)),
    ]
    return "\n\n".join(parts if result.rows else parts[:2]) + "\n"


def alike_rows(rows: Iterable[Row]) -> list[list[Row]]:
    """Rows in groups, in their order: a file may hold measurements of several kinds, whose columns
    are others. A row goes to the first group with most of whose columns it agrees."""
    groups: list[tuple[set[str], list[Row]]] = []
    for row in rows:
        names = set(row)
        for columns, group in groups:
            if len(columns & names) >= _ALIKE * len(columns | names):
                columns |= names
                group.append(row)
                break
        else:
            groups.append((names, [row]))
    return [group for _, group in groups]


def _rows_table(rows: Sequence[Row]) -> str:
    columns = list(dict.fromkeys(name for row in rows for name in row))
    return html_table(columns, [[row.get(column) for column in columns] for row in rows])


def results_index(results: Sequence[ResultFile]) -> str:
    """The page of all files."""
    rows = [
        [Link(f"{each.name}.html", each.name), each.command, len(each.rows), each.machine,
         *(f"{told}{'' if each.is_dated else _LAST_CHANGE}" for told in (each.date, each.commit))]
        for each in results
    ]  # fmt: skip
    heads = ("results", "made by", "rows", "machine", "date", "commit")
    toc = "\n".join(["```{toctree}", ":hidden:", "", "performance", "scheduling",
                     *(each.name for each in results), "```"])  # fmt: skip
    text = (
        "What was measured, and is told on this site, comes from these files; what a tutorial "
        "prints, from its own run. A heading sorts by its column; each file has a page with all of "
        "its rows. Dates and commits are those that the file gives; where it gives none, those of "
        "its last change in git stand there, and say so."
    )
    words = "[With words](performance.md): goals, kernels, models, plans, executor and decoders; "
    words += "[schedules and bounds](scheduling.md).\n\n"
    words += f'<a href="{HISTORY}.html">Over time</a>: some figures beside peers, a row a commit '
    words += f'(<a href="{HISTORY}.jsonl">rows</a>).'
    return "\n\n".join(["# Results", text, words, html_table(heads, rows), toc]) + "\n"


@dataclass(frozen=True)
class Link:
    """A cell that leads somewhere."""

    target: str
    text: str


def html_table(heads: Sequence[str], rows: Iterable[Sequence[Any]], kind: str = "sortable") -> str:
    """A table as a block of HTML without empty lines; what is too wide can be scrolled by key."""
    top = "".join(f'<th scope="col">{html.escape(head)}</th>' for head in heads)
    body = "\n".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    label = "facts" if kind == "facts" else f"rows by {', '.join(heads)}"
    return (
        f'<div class="wide" tabindex="0" role="group" aria-label="{html.escape(label)}">\n'
        f'<table class="docutils {kind}"><thead><tr>{top}</tr></thead>\n<tbody>\n{body}\n'
        "</tbody></table></div>"
    )


def _cell(value: Any) -> str:
    """A cell; a figure is shown with four digits and sorted by all of them."""
    if isinstance(value, Link):
        return f'<td><a href="{html.escape(value.target)}">{html.escape(value.text)}</a></td>'
    if isinstance(value, float):
        return f'<td class="n" data-value="{value!r}">{value:.4g}</td>'
    if isinstance(value, int) and not isinstance(value, bool):
        return f'<td class="n">{value}</td>'
    text = _short(value)
    kind = ' class="s"' if len(text) < 40 else ""
    return f"<td{kind}>{html.escape(text)}</td>"


def _short(value: Any) -> str:
    """A value in words; long lists by their length."""
    if value is None or value == "":
        return "–"
    if isinstance(value, float):
        return f"{value:.4g}"
    text = value if isinstance(value, str) else json.dumps(value)
    if isinstance(value, list) and len(text) > 80:
        return f"{len(value)} entries, in the file"
    return " ".join(text.split())


def write_results(results: Path, folder: Path) -> list[ResultFile]:
    """Write a page for each file and the page of all, with the files themselves beside them."""
    found = read_results(results)
    for each in found:
        page = folder / f"{each.name}.md"
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(result_page(each), encoding="utf-8")
        shutil.copy(results / f"{each.name}.json", page.with_suffix(".json"))
    (folder / "index.md").write_text(results_index(found), encoding="utf-8")
    write_history(results / f"{HISTORY}.jsonl", folder)
    return found


def write_history(rows: Path, folder: Path) -> None:
    """Write the page of figures over time, with its rows beside it."""
    shutil.copy(rows, folder)
    page = history_page(read_history(rows))
    (folder / f"{HISTORY}.html").write_text(page, encoding="utf-8")
