"""``tvm-hetero show``: look at an artifact, a problem, a schedule or a platform."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tvm_hetero.cli.shared import options
from tvm_hetero.cli.shared.console import Steps, chart_width
from tvm_hetero.cli.shared.schedule_files import matching_problem, problem_beside
from tvm_hetero.errors import UsageError
from tvm_hetero.util.units import format_seconds

if TYPE_CHECKING:
    from tvm_hetero.problem.model import Problem
    from tvm_hetero.problem.schedule import Schedule


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
            help="The problem that the schedule answers (otherwise looked for beside it): "
            "adds the critical path, idle time by cause and what would help.",
        ),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(
            "--html", metavar="OUT.html", help="Write a page with charts (artifacts, schedules)."
        ),
    ] = None,
    svg: Annotated[
        Path | None,
        typer.Option("--svg", metavar="OUT.svg", help="Write the chart (artifacts, schedules)."),
    ] = None,
    kernels: Annotated[
        bool,
        typer.Option(
            "--kernels",
            help="Of an artifact: which rule took each kernel, what it reaches, what was tried.",
        ),
    ] = False,
    json_output: Annotated[
        bool, typer.Option("--json", help="With --kernels: print JSON.")
    ] = False,
) -> None:
    """Show a file; of a plan, explain its time too."""
    options.check_writable(html, "--html")
    options.check_writable(svg, "--svg")
    from tvm_hetero.artifact.kinds import has_sizes, is_decoder

    if kernels:
        _show_kernels(path / "step" if is_decoder(path) else path, as_json=json_output)
        return
    if json_output:
        raise UsageError("--json: only --kernels can be shown as JSON; the other files are JSON")
    steps = Steps()
    schedule: Schedule | None
    problem: Problem | None
    if has_sizes(path):
        schedule, problem = _show_sizes(steps, path)
    elif is_decoder(path):
        schedule, problem = _show_decoder(steps, path)
    elif path.is_dir():
        schedule, problem = _show_artifact(steps, path)
    else:
        schedule, problem = _show_document(steps, path, _load_problem(problem_file))
    for out, option, write in ((html, "--html", write_page), (svg, "--svg", write_chart)):
        if out is not None:
            if schedule is None:
                raise UsageError(f"{option}: only schedules and artifacts can be drawn")
            with steps.live("Write", of=out):
                write(out, schedule, problem)
            steps.say(f"wrote {out}", "green")


def _load_problem(path: Path | None) -> Problem | None:
    from tvm_hetero.problem.model import Problem

    return None if path is None else Problem.load(path)


def _show_document(
    steps: Steps, path: Path, problem: Problem | None
) -> tuple[Schedule | None, Problem | None]:
    """Show a problem, a platform or a schedule; return the schedule and its problem."""
    from tvm_hetero.platform.model import Platform
    from tvm_hetero.problem.model import Problem
    from tvm_hetero.problem.schedule import schedule_from_dict
    from tvm_hetero.report.schedule import text as plan
    from tvm_hetero.util.documents import read_document
    from tvm_hetero.util.untrusted_names import printable

    document = read_document(path)
    kind = str(document.get("format", "")).rsplit("/", 1)[0]
    if kind == "tvm-hetero/problem":
        loaded = Problem.from_dict(document, str(path))
        steps.say(plan.problem_text(loaded))
        steps.say("\n" + plan.device_table(loaded.platform))
    elif kind == "tvm-hetero/platform":
        platform = Platform.from_dict(document, str(path))
        steps.say(plan.device_table(platform))
        if platform.links or platform.fabrics:
            steps.say("\n" + plan.link_table(platform))
    elif kind == "tvm-hetero/schedule":
        schedule = schedule_from_dict(document, str(path))
        problem = matching_problem(schedule, problem) or problem_beside(schedule, path)
        _show_schedule(steps, schedule, problem)
        return schedule, problem
    else:
        raise UsageError(
            f"{path}: expected a problem, schedule or platform, got format "
            f"{printable(document.get('format'), limit=None)!r}"
        )
    return None, None


def _show_schedule(steps: Steps, schedule: Schedule, problem: Problem | None) -> None:
    from tvm_hetero.report.schedule.explain import explain
    from tvm_hetero.report.schedule.explain_text import explain_text
    from tvm_hetero.report.schedule.text import schedule_text

    steps.say(schedule_text(schedule, problem, chart_width()))
    if problem is None:
        steps.say("\nWith --problem: critical path, idle time by cause, and what would help.")
    else:
        with steps.live("Explain", of=problem.name):
            is_valid = _explainable(schedule, problem)
            text = explain_text(explain(problem, schedule), schedule, problem) if is_valid else ""
        if is_valid:
            steps.say("\n" + text)


def _explainable(schedule: Schedule, problem: Problem) -> bool:
    """Only a valid schedule can be explained; `tvm-hetero check` says what is wrong with one."""
    from tvm_hetero.check.checker import check_schedule

    return not check_schedule(problem, schedule)


def _show_artifact(steps: Steps, path: Path) -> tuple[Schedule, Problem]:
    """Show the manifest, the plan and the placement of an artifact. No library is loaded."""
    from tvm_hetero.artifact.manifest import read_manifest
    from tvm_hetero.problem.model import Problem
    from tvm_hetero.problem.schedule import Schedule
    from tvm_hetero.report.schedule.text import PLACEMENT_HEADERS, placement_rows
    from tvm_hetero.util.text_tables import format_table

    manifest = read_manifest(path)
    problem = Problem.load(path / "problem.json")
    schedule = Schedule.load(path / "schedule.json")
    steps.say(format_table(["artifact", str(path)], _manifest_rows(manifest)))
    steps.head("Placement")
    steps.say(format_table(PLACEMENT_HEADERS, placement_rows(schedule, problem)))
    steps.head("Plan")
    _show_schedule(steps, schedule, problem)
    return schedule, problem


def _show_decoder(steps: Steps, path: Path) -> tuple[Schedule, Problem]:
    """Show what a decoder is, and both of its artifacts; the schedule of a step is returned."""
    from tvm_hetero.cli.shared.partition_decoder import facts_text
    from tvm_hetero.decoders.folder import PREFILL, STEP, read_facts

    facts = read_facts(path)
    steps.say(facts_text(facts, path))
    steps.head("Step")
    found = _show_artifact(steps, path / STEP)
    if facts.chunk > 1:
        steps.head("Prefill")
        _show_artifact(steps, path / PREFILL)
    return found


def _show_sizes(steps: Steps, path: Path) -> tuple[None, None]:
    """Show what a folder of several sizes serves; each size is an artifact, to be shown itself."""
    from tvm_hetero.cli.shared.partition_sizes import sizes_table
    from tvm_hetero.sizes.folder import read_size_facts

    steps.say(sizes_table(read_size_facts(path), path))
    steps.say(f"(a size: tvm-hetero show {path / 'sizes'}/SIZE)")
    return None, None


def _show_kernels(path: Path, *, as_json: bool) -> None:
    """Show how the kernels of an artifact are computed."""
    from tvm_hetero.artifact.read import read_choices, read_precision
    from tvm_hetero.problem.model import Problem
    from tvm_hetero.problem.schedule import Schedule
    from tvm_hetero.report.run.kernels import kernels_json, kernels_text
    from tvm_hetero.report.run.precision import precision_table

    choices, promise = read_choices(path), read_precision(path)
    problem = Problem.load(path / "problem.json")
    schedule = Schedule.load(path / "schedule.json")
    if as_json:
        typer.echo(json.dumps(kernels_json(choices, problem, schedule, promise)))
    else:
        kernels = kernels_text(choices, problem, schedule)
        typer.echo(f"{kernels}\n\n{precision_table(promise, problem)}")


def _manifest_rows(manifest: Any) -> list[list[object]]:
    from tvm_hetero.report.run.kernels import probabilities_text

    rows: list[list[object]] = [["built with", f"{k} {v}"] for k, v in manifest["versions"].items()]
    rows += [["model", f"{k}: {v}"] for k, v in manifest["source"].items() if v]
    for name, devices in manifest["variants"].items():
        chosen = " (runs by default)" if name == manifest["default"] else ""
        rows.append(["variant", f"{name} on {', '.join(devices)}{chosen}"])
    if manifest.get("estimated"):
        rows.append(["costs", f"estimates of the cost model {manifest['estimated']!r}"])
    if manifest.get("probabilities"):
        rows.append(["branches", probabilities_text(manifest["probabilities"])])
    decision = manifest.get("decision") or {}
    for name, seconds in dict(decision.get("measured") or {}).items():
        rows.append(["measured", f"{name}: {format_seconds(float(seconds))} per batch"])
    for name, seconds in dict(decision.get("divisions") or {}).items():
        rows.append(["cores divided", f"{name}: {format_seconds(float(seconds))} per batch"])
    if decision.get("reason"):
        rows.append(["not compared", str(decision["reason"])])
    return rows


def write_page(path: Path, schedule: Schedule, problem: Problem | None) -> None:
    """Write the page about a plan, with its explanation where the problem is known."""
    from tvm_hetero.report.explorer.page_part import explorer_part
    from tvm_hetero.report.schedule.explain import explain
    from tvm_hetero.report.schedule.explain_text import assess_schedule, explain_tables
    from tvm_hetero.report.schedule.html import report_html
    from tvm_hetero.report.schedule.text import plan_page
    from tvm_hetero.util.documents import write_atomic

    page = plan_page(schedule, problem)
    if problem is not None and _explainable(schedule, problem):
        explanation = explain(problem, schedule)
        more = explain_tables(explanation, schedule, problem)
        page = replace(
            page,
            tables=[*more, *page.tables],
            verdict=assess_schedule(explanation, schedule),
            interactive=[explorer_part(problem, schedule)],
        )
    write_atomic(path, report_html(page))


def write_chart(path: Path, schedule: Schedule, problem: Problem | None) -> None:
    """Write the chart of a plan as SVG."""
    from tvm_hetero.report.schedule.gantt import gantt_svg
    from tvm_hetero.report.schedule.text import plan_chart, plan_lanes
    from tvm_hetero.util.documents import write_atomic

    chart = plan_chart(schedule, problem)
    lanes = plan_lanes(schedule, problem) if problem is not None else ()
    write_atomic(path, gantt_svg(chart.intervals, lanes=lanes, marks=chart.marks))
