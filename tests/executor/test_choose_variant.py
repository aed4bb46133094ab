"""What runs by default is what was quicker, and the artifact says so."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.models import branchy, lowered, random_schedule, two_cpus, unit_problem
from tvm_hetero.artifact.executable import PARTITION, SINGLE, Executable
from tvm_hetero.artifact.read import load_artifact
from tvm_hetero.compiler.build import build
from tvm_hetero.executor.choose_variant import Decision, compare, decide, with_decision
from tvm_hetero.passes.annotate_devices import annotate_devices
from tvm_hetero.problem import Objective
from tvm_hetero.solvers import solve

PLATFORM = two_cpus()


def built(kind: str = "latency", batch: int = 1, **changes: object) -> Executable:
    """`branchy` placed at random, and on one device."""
    module = lowered(branchy(), PLATFORM)
    problem = unit_problem(module, PLATFORM).with_objective(Objective(kind, batch))
    executable = build(annotate_devices(module, problem, random_schedule(problem, 1)))
    return replace(executable, **changes)


@pytest.mark.parametrize(("kind", "batch"), [("latency", 1), ("throughput", 1), ("latency", 2)])
def test_the_quicker_variant_is_the_default_and_stays_it(kind, batch, tmp_path: Path):
    executable = decide(built(kind, batch))
    decision = executable.decision
    measured = decision["measured"]
    assert set(measured) == {PARTITION, SINGLE}
    assert all(seconds > 0 for seconds in measured.values())
    assert executable.default == decision["chosen"] == min(measured, key=measured.get)
    assert decision["gain"] == 1 - measured[PARTITION] / measured[SINGLE]
    assert decision["kind"] == kind
    executable.save(tmp_path / "net.hetero")
    again = load_artifact(tmp_path / "net.hetero")
    assert (again.default, again.decision) == (executable.default, decision)


def test_what_is_not_judged_by_time_is_what_was_asked_for():
    executable = built()
    energy = replace(executable, schedule=replace(executable.schedule, kind="energy"))
    decision = compare(energy)
    assert (decision.chosen, decision.measured, decision.gain) == (PARTITION, {}, None)
    assert "energy" in decision.reason and "energy" in decision.text()
    only = {PARTITION: executable.variants[PARTITION]}
    alone = replace(executable, variants=only)
    assert compare(alone).reason == "no device alone can run the model"
    best = solve(alone.problem, "single")
    assert compare(replace(alone, schedule=best)).reason == "the plan is on one device"
    known = replace(alone.schedule, best_single_device=best.best_single_device)
    assert compare(replace(alone, schedule=known)).reason == "the best single device was not built"


def test_a_machine_that_is_not_here():
    executable = built()
    plan = executable.variants[PARTITION].plan
    workers = tuple(replace(worker, cores=(4095,)) for worker in plan.workers)
    elsewhere = replace(executable.variants[PARTITION], plan=replace(plan, workers=workers))
    variants = {**executable.variants, PARTITION: elsewhere}
    decision = compare(replace(executable, variants=variants))
    assert decision.chosen == PARTITION
    assert "not here" in decision.reason and "4095" in decision.reason


@pytest.mark.parametrize(
    ("seconds", "chosen", "words"),
    [(0.9, PARTITION, "10.0% shorter"), (1.25, SINGLE, "25.0% longer")],
)
def test_both_numbers_are_said_and_by_how_much(seconds, chosen, words):
    decision = Decision(chosen, "latency", {PARTITION: seconds, SINGLE: 1.0})
    text = decision.text()
    assert text.startswith(f"{chosen} runs") and words in text
    executable = with_decision(built(), decision)
    assert executable.default == chosen and executable.decision == decision.as_dict()
