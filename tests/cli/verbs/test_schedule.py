from __future__ import annotations

import json
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.invoke import tvm_hetero
from tests.models import branchy, two_cpus
from tests.waiting import cpu_seconds, eventually
from tvm_hetero.check import check_schedule
from tvm_hetero.pipeline.options import PartitionOptions
from tvm_hetero.pipeline.partition import partition
from tvm_hetero.problem import Objective, Problem
from tvm_hetero.problem.schedule import Schedule


@pytest.mark.parametrize("solver", ["single", "heft", "auto"])
def test_solves_and_the_check_agrees(files: Path, solver: str) -> None:
    out = files / "out.json"
    result = tvm_hetero("schedule", files / "problem.json", "--solver", solver, "-o", out)
    assert result.status == 0
    assert "Bottleneck: " in result.out and "best single device" in result.out
    assert tvm_hetero("check", files / "problem.json", out).status == 0


def test_finds_the_optimum(files: Path) -> None:
    out = files / "out.json"
    assert tvm_hetero("schedule", files / "problem.json", "-o", out).status == 0
    assert Schedule.load(out).value == pytest.approx(5e-3)


def test_a_wide_gap_is_met_by_what_comes_first(files: Path) -> None:
    out = files / "out.json"
    assert tvm_hetero("schedule", files / "problem.json", "--gap", "0.99", "-o", out).status == 0
    found = Schedule.load(out)
    assert found.solver == "auto:heft" and 0 < found.gap <= 0.99
    assert tvm_hetero("schedule", files / "problem.json", "--gap", "1").status == 2


def test_json_is_the_schedule_alone(files: Path) -> None:
    result = tvm_hetero("schedule", files / "problem.json", "--solver", "heft", "--json")
    assert result.status == 0
    assert json.loads(result.out)["format"] == "tvm-hetero/schedule/1"
    assert "Load problem" in result.err


def test_unknown_solver_suggests_the_nearest(files: Path) -> None:
    result = tvm_hetero("schedule", files / "problem.json", "--solver", "hft")
    assert result.status == 2
    assert "did you mean 'heft'?" in result.err


def test_a_device_that_breaks_the_limit_alone_is_not_said_to_lack_tasks(files: Path) -> None:
    document = json.loads((files / "problem.json").read_text(encoding="utf-8"))
    for device in document["platform"]["devices"]:
        device["watts"] = 10
    document["objective"] = {"kind": "energy", "latency_limit": 6e-3}
    (files / "limit.json").write_text(json.dumps(document))
    result = tvm_hetero("schedule", files / "limit.json", "--solver", "heft")
    assert result.status == 0
    assert "no device can do it alone" in result.out


def test_a_chart_fits_the_terminal(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    result = tvm_hetero("schedule", files / "problem.json", "--solver", "heft")
    chart = [line for line in result.out.splitlines() if "│" in line]
    assert chart and max(map(len, chart)) <= 60


def test_cyclic_problem_writes_nothing(files: Path) -> None:
    document = json.loads((files / "problem.json").read_text(encoding="utf-8"))
    document["edges"].append({"src": "b", "dst": "a", "bytes": 4})
    (files / "cycle.json").write_text(json.dumps(document))
    before = sorted(files.iterdir())
    result = tvm_hetero("schedule", files / "cycle.json", "-o", files / "out.json")
    assert result.status == 2
    assert "a -> b -> a" in result.err or "b -> a -> b" in result.err
    assert sorted(files.iterdir()) == before


def test_does_not_import_tvm(files: Path) -> None:
    code = (
        "import sys\nfrom tvm_hetero.cli.main import main\n"
        f"status = main(['schedule', {str(files / 'problem.json')!r}, '--solver', 'heft'])\n"
        "print(status, sorted(m for m in sys.modules if m.split('.')[0] in ('tvm', 'onnx')))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert result.stdout.splitlines()[-1] == "0 []"


def test_a_schedule_can_begin_from_another(files: Path) -> None:
    first, second = files / "first.json", files / "second.json"
    problem = files / "problem.json"
    assert tvm_hetero("schedule", problem, "--solver", "heft", "-o", first).status == 0
    result = tvm_hetero(
        "schedule", problem, "--solver", "cpsat", "--start", first, "--workers", 2, "-o", second
    )
    assert result.status == 0
    assert Schedule.load(second).value <= Schedule.load(first).value


@pytest.mark.parametrize(
    ("option", "says"),
    [("--backend", "highs"), ("--symmetry", "batches")],
)
def test_unknown_choices_say_what_there_is(files: Path, option: str, says: str) -> None:
    result = tvm_hetero("schedule", files / "problem.json", option, "nonsense")
    assert result.status == 2 and says in result.err and "nonsense" in result.err


def test_solvers_are_listed_with_what_they_are() -> None:
    result = tvm_hetero("solvers")
    assert result.status == 0
    for name in ("auto", "cpsat", "heft", "milp", "milp-split"):
        assert f"\n{name} " in result.out
    assert "earliest finish time" in result.out
    marked = [
        line.split()[0] for line in result.out.splitlines() if line.split()[1:2] == ["baseline"]
    ]
    assert "milp" in marked and "auto" not in marked


def test_robust_says_mean_and_worst_and_show_says_them_again(files: Path) -> None:
    out = files / "out.json"
    args = ("schedule", files / "problem.json", "--solver", "heft", "--robust", 0.1, "-o", out)
    result = tvm_hetero(*args, "--robust-samples", 30)
    assert result.status == 0
    says = "costs off by up to 10 %, 30 samples"
    assert says in result.out and "worst latency" in result.out
    robust = Schedule.load(out).robust
    assert robust is not None and 0 < robust.mean < robust.worst
    assert says in tvm_hetero("show", out).out
    assert tvm_hetero("check", files / "problem.json", out).status == 0


def test_robust_goal_gives_a_schedule_that_the_check_accepts(files: Path) -> None:
    out = files / "out.json"
    result = tvm_hetero(
        "schedule", files / "problem.json", "--solver", "heft", "--time-limit", 0.5,
        "--robust", 0.3, "--robust-goal", "worst", "-o", out,
    )  # fmt: skip
    assert result.status == 0
    assert tvm_hetero("check", files / "problem.json", out).status == 0


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (("--robust-goal", "mean"), "--robust 0.1"),
        (("--robust", 0.1, "--robust-goal", "median"), "mean, worst or none"),
        (("--robust", 10), "0.1 for 10 %"),
    ],
)
def test_robust_options_that_make_no_sense(
    files: Path, given: tuple[object, ...], says: str
) -> None:
    result = tvm_hetero("schedule", files / "problem.json", *given)
    assert result.status == 2 and says in result.err


def test_a_start_is_an_answer_to_this_problem(files: Path) -> None:
    problem = files / "problem.json"
    broken = tvm_hetero("schedule", problem, "--start", files / "wrong.json")
    assert broken.status == 2
    assert "--start" in broken.err and "not valid: rule" in broken.err
    document = json.loads(problem.read_text(encoding="utf-8"))
    document["name"] = "another"
    (files / "another.json").write_text(json.dumps(document))
    other = tvm_hetero("schedule", files / "another.json", "--start", files / "schedule.json")
    assert other.status == 2
    assert "answers another problem" in other.err
    assert len(other.err.splitlines()) == 1


def is_solving(pid: int) -> bool:
    """Whether a process has OR-tools loaded and has worked for longer than all before it takes.

    Seconds of its own CPU time: to load everything takes one to two, on a busy machine too.
    """
    return "ortools" in Path(f"/proc/{pid}/maps").read_text() and cpu_seconds(pid) > 3


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["milp", "milp-split"])
def test_ctrl_c_gives_the_best_plan_so_far(tmp_path: Path, solver: str) -> None:
    made = tvm_hetero("zoo", "randwire-c154", "-o", tmp_path / "problem.json")
    assert made.status == 0
    with subprocess.Popen(
        [sys.executable, "-m", "tvm_hetero", "schedule", str(tmp_path / "problem.json"),
         "-o", str(tmp_path / "out.json"), "--solver", solver, "--time-limit", "500"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert "Load problem" in process.stdout.readline()
        assert eventually(lambda: is_solving(process.pid))
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    found = Schedule.load(tmp_path / "out.json")
    assert not check_schedule(Problem.load(tmp_path / "problem.json"), found)
    assert 0 < found.lower_bound < found.value
    assert err.splitlines()[-1] == (
        f"interrupted; this is the best plan so far, with a gap of {found.gap:.2%}"
    )


@pytest.mark.parametrize("solver", ["greedy", "shares"])
def test_a_throughput_problem_gets_the_plan_that_partition_gives_it(
    solver: str, tmp_path: Path
) -> None:
    platform = two_cpus()
    figures = ({"peak_flops": peak, "bandwidth": 2e10, "launch": 2e-6} for peak in (2e11, 1e11))
    unlike = [replace(device, **row) for device, row in zip(platform.devices, figures, strict=True)]
    platform = replace(platform, devices=tuple(unlike))
    goal = Objective("throughput", 4)
    whole = partition(
        branchy(),
        platform,
        PartitionOptions(objective=goal, solver=solver, cost_model="analytical"),
    )
    path = tmp_path / "problem.json"
    whole.problem.save(path)
    same = Schedule.loads(tvm_hetero("schedule", path, "--solver", solver, "--json").out)
    assert same.dumps(canonical=True) == whole.schedule.dumps(canonical=True)
    kept = tvm_hetero("schedule", path, "--solver", solver, "--as-solved", "--json")
    plain = Schedule.loads(kept.out)
    assert plain.solver == solver != same.solver == "elements"
    assert plain.placement != same.placement
