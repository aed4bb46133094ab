"""The picture of a plan in README.md: Inception-v1 on a CPU and two different GPUs.

    python -m benchmarks.plan_picture    # solves; docs/pictures: schedule.json, plan.svg

The schedule is committed beside its picture, so that anybody can check it and draw it again.
"""

from __future__ import annotations

from pathlib import Path

from tvm_hetero import zoo
from tvm_hetero.problem import Objective, Problem
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.report.schedule.gantt import gantt_svg
from tvm_hetero.report.schedule.text import plan_chart
from tvm_hetero.solvers import Options, solve
from tvm_hetero.util.documents import write_atomic

PICTURES = Path(__file__).resolve().parent.parent / "docs" / "pictures"


def main() -> None:
    """Solve the problem and draw its plan."""
    problem = pictured_problem()
    schedule = solve(problem, "auto", Options(time_limit=60.0))
    write_atomic(PICTURES / "schedule.json", schedule.dumps())
    write_atomic(PICTURES / "plan.svg", picture(problem, schedule))
    print(f"{schedule.value:.3g} s, {schedule.status}, gap {schedule.gap:.2%}")


def pictured_problem() -> Problem:
    """The light Inception-v1 of the onnx wheel, one image."""
    return zoo.problem("light-inception_v1", "sched-nvl", Objective())


def picture(problem: Problem, schedule: Schedule) -> str:
    """The chart of a plan as SVG text, as ``tvm-hetero show --svg`` draws it."""
    chart = plan_chart(schedule, problem)
    return gantt_svg(chart.intervals, lanes=problem.platform.names, marks=chart.marks) + "\n"


if __name__ == "__main__":
    main()
