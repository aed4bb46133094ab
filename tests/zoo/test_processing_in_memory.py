"""Memories that compute: figures in proportion, and no task where units cannot do it."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.platform_files import platform_text
from tvm_hetero import zoo
from tvm_hetero.platform import Device
from tvm_hetero.problem import Objective
from tvm_hetero.zoo.platforms import PRESETS, platform
from tvm_hetero.zoo.processing_in_memory import (
    PARTS,
    PIM_SERVERS,
    pim_device,
    pim_machine,
    pim_sources,
)
from tvm_hetero.zoo.work_graph import WorkGraph


@pytest.mark.parametrize("name", PIM_SERVERS)
def test_a_file_says_the_same_as_the_machine_and_where_from(name: str) -> None:
    assert platform_text(platform(name), []) == platform_text(pim_machine(name), [])
    text = (PRESETS / f"{name}.yaml").read_text(encoding="utf-8")
    plain = " ".join(line.lstrip("# ") for line in text.splitlines())
    assert all(source in plain for source in pim_sources(name))


@pytest.mark.parametrize("name", PARTS)
def test_parts_are_in_proportion(name: str) -> None:
    """A unit error (bits for bytes, a chip for a channel) would show."""
    part = PARTS[name]
    assert part.peak_flops / part.bandwidth == pytest.approx(1.0, rel=0.01) or name == "upmem-rank"
    assert 3.9 < part.bandwidth / part.pins < 17  # what its units gain over its pins
    assert 0.5e-3 < part.memory / part.bandwidth < 0.1  # read through in 0.5 to 100 ms
    assert "20" in part.source and part.source[-1] != "."


def test_parts_that_act_as_one_are_as_many_times_as_fast() -> None:
    starter = Device("gpu", launch=3e-6)
    one, four = (pim_device("aquabolt-xl", n, starter) for n in (1, 4))
    for key in ("memory", "peak_flops", "bandwidth"):
        assert getattr(four, key) == 4 * getattr(one, key)
    assert four.launch == 3e-6 and four.units == one.units and not four.overlap


def runs_there(model: str, preset: str, **parameters: Any) -> set[str]:
    """The kinds of tasks that have a cost on the memory."""
    problem = zoo.problem(model, preset, **parameters)
    return {task.op for task in problem.tasks if "pim" in problem.costs[task.id]}


def test_only_what_the_units_can_has_a_cost_there() -> None:
    small: dict[str, Any] = {"layers": 1, "context": 64}
    products = {"qkv", "scores", "mix", "projection", "up", "down", "head"}
    assert runs_there("llama2-7b", "hbm-pim", grain="products", **small) == products
    # Fused tasks have norms in them, and 32 bits are too wide.
    assert runs_there("llama2-7b", "hbm-pim", **small) == set()
    assert runs_there("bert-base", "aim", layers=1) == set()
    # Functions of single numbers, but nobody says that they look up rows of tables.
    aim = runs_there("llama2-7b", "aim", grain="products", **small)
    assert aim == products | {"activation"}
    assert runs_there("gpt3-13b", "attacc", grain="attention", **small) == {"attention"}
    emulated = runs_there("llama2-7b", "upmem", grain="products", **small)
    assert emulated >= products | {"softmax", "input_norm", "embedding"}


def test_a_batch_gains_nothing_from_sharing_weights_there() -> None:
    batch = Objective("latency", 8)
    problem = zoo.problem("llama2-7b", "hbm-pim", batch, layers=1, grain="products")
    once, eight = (problem.seconds("down", "pim", n) for n in (1, 8))
    launch = problem.platform.device("pim").launch or 0.0
    assert eight - launch == pytest.approx(8 * (once - launch), rel=1e-3)
    assert problem.seconds("down", "gpu0", 8) < 1.2 * problem.seconds("down", "gpu0", 1)


def _sums(graph: WorkGraph) -> tuple[float, int, int]:
    works = graph.works
    return graph.flops, graph.weight_bytes, sum(work.cache for work in works)


@pytest.mark.parametrize("model", ["gpt2-small", "llama3-8b"])
@pytest.mark.parametrize("tokens", [1, 16])
def test_all_grains_have_the_same_work_weights_and_cache(model: str, tokens: int) -> None:
    halves, attention, products = (
        zoo.work_graph(model, context=100, tokens=tokens, grain=grain)
        for grain in ("halves", "attention", "products")
    )
    for other in (attention, products):
        flops, weights, cache = _sums(other)
        assert flops == pytest.approx(_sums(halves)[0])
        assert (weights, cache) == _sums(halves)[1:]
    layers = len(halves.works) // 2 - 2
    assert len(products.works) > len(attention.works) > len(halves.works) > layers
