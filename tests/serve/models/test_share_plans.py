"""Plans on shares of a model's cores: of what was compiled for all of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tvm_hetero.artifact.read import load_artifact
from tvm_hetero.serve.models.share_plans import SharePlans


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
