"""A decoder's layers in stages: what lies where, and what that carries."""

from __future__ import annotations

from functools import cache
from itertools import groupby

import pytest

from benchmarks.choosing.decoder_cases import CASES, DecoderCase, offer
from benchmarks.choosing.token_rates import carried, most_carried
from tvm_hetero.errors import InfeasibleError, UsageError
from tvm_hetero.planning.choosing import ModelVariant
from tvm_hetero.planning.choosing.decoder_ways import plan_ways
from tvm_hetero.planning.choosing.options import rate_options
from tvm_hetero.planning.choosing.replica_plan import ReplicaOption
from tvm_hetero.planning.choosing.request import ChoiceRequest
from tvm_hetero.solvers import Options

FAST = Options(0.1, deadline=60.0, gap=0.01)


@cache
def two_t4() -> tuple[DecoderCase, tuple[ReplicaOption, ...]]:
    case = CASES[0]
    return case, plan_ways(case.variant, offer("T4", 2), 8, FAST)


def test_layers_stand_in_stages_and_each_way_has_a_name() -> None:
    _, ways = two_t4()
    stages = [each for each in ways if each.way]
    assert [each.service.groups for each in stages] == [2]  # caches of a third have no room
    assert len({each.name for each in ways}) == len(ways) == 2
    for each in stages:
        problem = each.service.step.problem
        homes = {run.task: run.device for run in each.plan.executions}
        row = [homes[task] for task in problem.graph.topological_order]
        gpus = [key for key, _ in groupby(row) if key != "cpu"]
        assert sorted(gpus) == ["gpu0", "gpu1"]  # each once: no batch comes back to a stage


def test_stages_carry_more_within_a_limit_of_each_token() -> None:
    case, ways = two_t4()
    rates = {each.name: carried(each, case.asked, case.rated_by) for each in ways}
    best = max(each for name, each in rates.items() if "in stages" in name)
    assert best > 1.05 and best >= 0.95 * max(rates.values())
    for each in ways:
        assert rates[each.name] <= most_carried(each, case) * (1 + 1e-9)


def test_a_way_that_cannot_carry_as_much_is_cut_without_its_shares() -> None:
    case, ways = two_t4()
    request = ChoiceRequest((case.variant,), (ways[0].machine,), (case.asked(2.0, 20.0),),
                            seconds=20.0, batches=(8,))  # fmt: skip
    kept, cut = rate_options(request, ways)
    assert len(kept) + len(cut) == len(ways) and kept[0].option.way == "in stages"
    for each in cut:
        assert each.most <= each.by.capacity or each.simulated


def test_what_fits_in_no_way_is_refused() -> None:
    model = ModelVariant("m", 1.0, "llama2-7b", "float16", {"context": 2048})
    with pytest.raises(InfeasibleError, match="too little"):
        plan_ways(model, offer("T4", 1), 8, FAST)
    with pytest.raises(UsageError, match="decoders of the zoo compute in float16"):
        plan_ways(ModelVariant("m", 1.0, "llama2-7b", "float32"), offer("L4", 1), 1, FAST)
