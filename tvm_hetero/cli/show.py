"""``tvm-hetero show``: look at an artifact, a problem, a schedule or a platform."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tvm_hetero.cli import options
from tvm_hetero.cli.console import Steps, chart_width
from tvm_hetero.errors import UsageError

if TYPE_CHECKING:
    from tvm_hetero.problem import Problem
    from tvm_hetero.schedule import Schedule


def show(
    path: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="An artifact, a problem, a schedule or a platform."),
    ],
    problem_file: Annotated[
        Path | None,
        typer.Option(
            "--problem",
            metavar="PROBLEM.json",
            help="The problem that the schedule answers; adds kinds of tasks and idle devices.",
        ),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(
            "--html", metavar="OUT.html", help="Write a page with charts (artifacts, schedules)."
        ),
    ] = None,
) -> None:
    """Show what a file of this project says."""
    options.check_writable(html, "--html")
    steps = Steps()
    schedule, problem = None, _load_problem(problem_file)
    if path.is_dir():
        schedule, problem = _show_artifact(steps, path)
    else:
        schedule = _show_document(steps, path, problem)
    if html is not None:
        if schedule is None:
            raise UsageError("--html: only schedules and artifacts have a page")
        write_page(html, schedule, problem)
        steps.say(f"wrote {html}", "green")


def _load_problem(path: Path | None) -> Problem | None:
    from tvm_hetero.problem import Problem

    return None if path is None else Problem.load(path)


def _show_document(steps: Steps, path: Path, problem: Problem | None) -> Schedule | None:
    """Show a problem, a platform or a schedule; return the schedule."""
    from tvm_hetero.documents import read_document
    from tvm_hetero.platform_format import platform_from_dict
    from tvm_hetero.problem_format import problem_from_dict
    from tvm_hetero.report import plan
    from tvm_hetero.report.text import printable
    from tvm_hetero.schedule import schedule_from_dict

    document = read_document(path)
    kind = str(document.get("format", "")).rsplit("/", 1)[0]
    if kind == "tvm-hetero/problem":
        loaded = problem_from_dict(document, str(path))
        steps.say(plan.problem_text(loaded))
        steps.say("\n" + plan.device_table(loaded.platform))
    elif kind == "tvm-hetero/platform":
        platform = platform_from_dict(document, str(path))
        steps.say(plan.device_table(platform))
        if platform.links or platform.fabrics:
            steps.say("\n" + plan.link_table(platform))
    elif kind == "tvm-hetero/schedule":
        schedule = schedule_from_dict(document, str(path))
        _show_schedule(steps, schedule, _matching(schedule, problem))
        return schedule
    else:
        raise UsageError(
            f"{path}: expected a problem, schedule or platform, got format "
            f"{printable(document.get('format'))!r}"
        )
    return None


def _matching(schedule: Schedule, problem: Problem | None) -> Problem | None:
    """The problem, if the schedule is an answer to it.

    Raises
    ------
    UsageError
        If it is an answer to another one.
    """
    if problem is not None and problem.digest != schedule.problem:
        raise UsageError(
            "--problem: the schedule answers another problem "
            f"({schedule.problem[:12]}..., this one is {problem.digest[:12]}...)"
        )
    return problem


def _show_schedule(steps: Steps, schedule: Schedule, problem: Problem | None) -> None:
    from tvm_hetero.report.plan import schedule_text

    steps.say(schedule_text(schedule, problem, chart_width()))


def _show_artifact(steps: Steps, path: Path) -> tuple[Schedule, Problem]:
    """Show the manifest, the plan and the placement of an artifact. No library is loaded."""
    from tvm_hetero.problem import Problem
    from tvm_hetero.report.plan import PLACEMENT_HEADERS, placement_rows
    from tvm_hetero.report.text import table
    from tvm_hetero.runtime.artifact import read_manifest
    from tvm_hetero.schedule import Schedule

    manifest = read_manifest(path)
    problem = Problem.load(path / "problem.json")
    schedule = Schedule.load(path / "schedule.json")
    steps.say(table(["artifact", str(path)], _manifest_rows(manifest)))
    steps.head("Placement")
    steps.say(table(PLACEMENT_HEADERS, placement_rows(schedule, problem)))
    steps.head("Plan")
    _show_schedule(steps, schedule, problem)
    return schedule, problem


def _manifest_rows(manifest: Any) -> list[list[object]]:
    rows: list[list[object]] = [["built with", f"{k} {v}"] for k, v in manifest["versions"].items()]
    rows += [["model", f"{k}: {v}"] for k, v in manifest["source"].items() if v]
    for name, devices in manifest["variants"].items():
        chosen = " (runs by default)" if name == manifest["default"] else ""
        rows.append(["variant", f"{name} on {', '.join(devices)}{chosen}"])
    return rows


def write_page(path: Path, schedule: Schedule, problem: Problem | None) -> None:
    """Write the page about a plan."""
    from tvm_hetero.documents import write_atomic
    from tvm_hetero.report.html import report_html
    from tvm_hetero.report.plan import plan_page

    write_atomic(path, report_html(plan_page(schedule, problem)))
