"""The Python of pages that speak of a reader's own objects, run with small ones in their place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cli.verbs.test_choose import write_question
from tests.planning.power.small_problems import independent
from tests.test_docs import PAGES, blocks


def run_block(page: str, words: str, **names: Any) -> dict[str, Any]:
    """The names that a page's block of Python makes; its last expression is ``_``."""
    (text,) = [each for each in blocks(PAGES[page], "python") if words in each]
    lines = text.rstrip().splitlines()
    if "=" not in lines[-1]:
        lines[-1] = f"_ = {lines[-1]}"
    exec(compile("\n".join(lines), page, "exec"), names)
    return names


def test_choosings_python_answers_a_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_question(tmp_path).rename(tmp_path / "request.yaml")
    monkeypatch.chdir(tmp_path)
    price, bound, _better, binding, front = run_block("docs/choosing.md", "answer.front")["_"]
    assert 0 < bound <= price * (1 + 1e-9)
    assert binding and len(front) >= 1


def test_powers_python_plans_under_watts() -> None:
    problem = independent(
        [{"a": 0.010, "b": 0.004}, {"a": 0.008, "b": 0.003}], a=(10.0, 1.0), b=(40.0, 2.0)
    )
    made = run_block("docs/power.md", "most_throughput", problem=problem)
    plan, schedule = made["plan"], made["schedule"]
    assert plan.watts <= 20.0 + 1e-9
    assert plan.joules == pytest.approx(plan.watts * plan.period)
    assert {"t0", "t1"} <= {each.task for each in schedule.executions}
    assert made["timed"].graph.index.keys() == {each.task for each in schedule.executions}
    assert max(each.end for each in schedule.executions) <= 0.03 + 1e-12
