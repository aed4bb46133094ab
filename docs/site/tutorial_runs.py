"""Runs tutorials and keeps what they printed and made, until the script is another one.

A run is kept in build/site_runs/NAME: what was printed, what the script left behind, and where that
was. Remove the folder to run a script anew.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.provenance import commit_name
from docs.site.tutorial_pages import RecordedRun
from tvm_hetero.platform.host import read_processor
from tvm_hetero.problem import Problem
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.report.schedule.gantt import gantt_svg
from tvm_hetero.report.schedule.text import plan_chart
from tvm_hetero.util.documents import write_atomic

ROOT = Path(__file__).resolve().parents[2]
_SECONDS = 900.0  # that a script may take


def recorded_run(script: Path, runs: Path, pages: Path) -> RecordedRun:
    """What a script printed and made, from the last run of this very text or from one now.

    Parameters
    ----------
    script : a file of tutorials/.
    runs : the folder of all runs.
    pages : the folder of the tutorials' pages, to which pictures and pages are copied.

    Raises
    ------
    RuntimeError
        If the script fails: no page can be made of it.
    """
    folder = runs / script.stem
    digest = hashlib.sha256(script.read_bytes()).hexdigest()
    record = folder / "record.json"
    if not record.exists() or json.loads(record.read_text())["script"] != digest:
        _run(script, folder, digest)
    kept = json.loads(record.read_text(encoding="utf-8"))
    pictures, written = _collect(folder, pages, script.stem)
    return RecordedRun(kept["output"], kept["where"], pictures, written)


def _run(script: Path, folder: Path, digest: str) -> None:
    """Run it in an empty folder and keep what came of it."""
    print(f"runs {script.name} ...", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    load = os.getloadavg()[0]  # of other programs: nothing runs here yet
    done = subprocess.run(
        [sys.executable, str(script)], cwd=folder, timeout=_SECONDS, text=True,
        capture_output=True, env={**os.environ, "PYTHONPATH": paths, "PYTHONWARNINGS": "ignore"},
    )  # fmt: skip
    if done.returncode != 0:
        raise RuntimeError(f"{script.name} ended with status {done.returncode}:\n{done.stderr}")
    where = f"{read_processor().name}, {len(os.sched_getaffinity(0))} cores, "
    where += f"load {load:.1f} before, "
    where += f"{datetime.date.today().isoformat()}, commit {commit_name()}"
    record = {"script": digest, "where": where, "output": done.stdout}
    write_atomic(folder / "record.json", json.dumps(record, indent=1))


def _collect(
    folder: Path, pages: Path, name: str
) -> tuple[tuple[tuple[str, str], ...], tuple[str, ...]]:
    """Pictures of the plans that a run made, and pages that it wrote, copied beside its own."""
    own = pages / name
    own.mkdir(parents=True, exist_ok=True)
    pictures = []
    for file in sorted(folder.rglob("schedule.json")):
        where = file.parent.relative_to(folder).as_posix().removeprefix("demo/")
        picture = own / f"{where.replace('/', '-')}.svg"
        write_atomic(picture, _plan_picture(file.parent))
        pictures.append((f"{name}/{picture.name}", f"The plan of {where}: a row a device"))
    written = []
    for page in sorted(folder.rglob("*.html")):
        shutil.copy(page, own / page.name)
        written.append(f"{name}/{page.name}")
    return tuple(pictures), tuple(written)


def _plan_picture(artifact: Path) -> str:
    """The chart of an artifact's plan, as ``tvm-hetero show --svg`` draws it."""
    problem = Problem.load(artifact / "problem.json")
    chart = plan_chart(Schedule.load(artifact / "schedule.json"), problem)
    return gantt_svg(chart.intervals, lanes=problem.platform.names, marks=chart.marks) + "\n"
