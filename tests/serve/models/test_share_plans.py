"""Plans on shares of a model's cores: of what was compiled for all of them."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import pytest

from tvm_hetero.artifact.read import load_artifact
from tvm_hetero.errors import SolverWarning
from tvm_hetero.serve.models import share_plans
from tvm_hetero.serve.models.share_plans import SHAPES, SharePlans


def test_a_model_is_divided_only_if_all_its_devices_have_kernels(served_models: Path) -> None:
    whole = load_artifact(served_models / "dense.hetero")
    assert SharePlans(whole).is_divisible
    # What `build_here` leaves of estimated costs: the module, and kernels for the plan alone.
    variant = whole.variants["single"]
    part = replace(whole, variants={"single": variant}, default="single", spare={})
    assert len(part.libraries) < len(whole.problem.platform.devices)
    plans = SharePlans(part)
    assert not plans.is_divisible
    assert plans.plan(plans.cores, "single").variant is variant
    assert not plans.runs_on(frozenset(sorted(plans.cores)[:1]))


def test_who_serves_is_told_of_no_solver(
    served_models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In no time no solver finds anything; whoever serves has not asked for one."""
    monkeypatch.setattr(share_plans, "_SOLVER_SECONDS", 1e-9)
    plans = SharePlans(load_artifact(served_models / "dense.hetero"))
    two = frozenset(sorted(plans.cores)[:2])
    with warnings.catch_warnings():
        warnings.simplefilter("error", SolverWarning)
        made = [plans.plan(two, shape) for shape in SHAPES]
    assert all(0 < plan.period <= plan.seconds for plan in made)
