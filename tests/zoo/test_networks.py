"""Operations and parameters against published figures.

Convolutional networks and ViT: torchvision's model cards (multiplications with additions, in
thousand millions; parameters), papers for the rest. Language models: see `tvm_hetero.zoo`.
"""

from __future__ import annotations

import pytest

from tvm_hetero import zoo
from tvm_hetero.errors import UsageError
from tvm_hetero.zoo.decoder_shapes import SHAPES
from tvm_hetero.zoo.experts import MIXTURES

# Name, parameters, thousand millions of multiply-additions.
PUBLISHED = {
    "vgg16": (138_357_544, 15.47),
    "vgg19": (143_667_240, 19.63),
    "resnet18": (11_689_512, 1.81),
    "resnet34": (21_797_672, 3.66),
    "resnet50": (25_557_032, 4.09),
    "resnet101": (44_549_160, 7.80),
    "resnet152": (60_192_808, 11.51),
    "densenet121": (7_978_856, 2.83),
    "densenet201": (20_013_928, 4.29),
    "mobilenet-v1": (4_200_000, 0.569),
    "mobilenet-v2": (3_504_872, 0.30),
    "inception-v1": (6_998_552, 1.58),
    "inception-v3": (23_834_568, 5.71),
    "inception-v4": (42_679_816, 12.27),
    "randwire-ws": (5_600_000, 0.583),
    "randwire-c109": (31_900_000, 4.0),
    "randwire-c154": (61_500_000, 7.9),
    "vit-base": (86_567_656, 17.56),
    "vit-large": (304_326_632, 61.55),
}
PARAMETERS = {
    "unet": 31_031_000,
    "bert-base": 109_480_000,
    "bert-large": 335_140_000,
    "gpt3-175b": 174.6e9,
    "llama2-7b": 6_738_415_616,
    "llama2-13b": 13_015_864_320,
    "llama2-70b": 68_976_648_192,
    "llama3-8b": 8_030_261_248,
    "llama3-70b": 70.6e9,
    "llama3-405b": 405.9e9,
    "megatron-1t": 1008e9,
    "mixtral-8x7b": 46.7e9,
    "mixtral-8x22b": 140_630_071_296,
    "deepseek-v3": 671e9,
    "kimi-k2": 1.03e12,
}
# Parameters that one token uses.
ACTIVE = {"mixtral-8x7b": 12.9e9, "mixtral-8x22b": 39e9, "deepseek-v3": 37e9, "kimi-k2": 32e9}


# Models whose head shares its weights with the embedding: the published total has them once.
# Released weights of GPT-2; Table 2.1 of GPT-3's paper, in its own rounding.
TIED = {
    "gpt2-small": (124_439_808, 0.002),
    "gpt2-medium": (354_823_168, 0.002),
    "gpt2-large": (774_030_080, 0.002),
    "gpt2-xl": (1_557_611_200, 0.002),
    "gpt3-125m": (125e6, 0.02),
    "gpt3-350m": (350e6, 0.02),
    "gpt3-760m": (760e6, 0.02),
    "gpt3-1.3b": (1.3e9, 0.02),
    "gpt3-2.7b": (2.7e9, 0.02),
    "gpt3-6.7b": (6.7e9, 0.02),
    "gpt3-13b": (13.0e9, 0.02),
    "gpt3-175b": (175e9, 0.005),
}
# Bytes of keys and values of one token in 16 bits, from the papers' shapes: layers x 2 x key heads
# x size of a head x 2 bytes.
CACHES = {
    "gpt2-xl": 48 * 2 * 1600 * 2,
    "gpt3-175b": 96 * 2 * 96 * 128 * 2,
    "llama2-7b": 524_288,
    "llama3-8b": 131_072,
    "llama3-70b": 327_680,
    "llama3-405b": 126 * 2 * 8 * 128 * 2,
    "mixtral-8x7b": 131_072,
    "mixtral-8x22b": 56 * 2 * 8 * 128 * 2,
    "deepseek-v3": 61 * 576 * 2,
}


@pytest.mark.parametrize("name", TIED)
def test_parameters_with_a_tied_head(name: str):
    works = zoo.work_graph(name).works
    head = next(work.weights for work in works if work.op == "head") // 2
    published, tolerance = TIED[name]
    counted = sum(work.weights for work in works) // 2 - head
    assert SHAPES[name].tied
    assert counted == pytest.approx(published, rel=tolerance)


@pytest.mark.parametrize("name", CACHES)
def test_bytes_of_the_cache_of_a_token(name: str):
    shape = SHAPES.get(name) or MIXTURES[name]
    assert shape.cache_bytes() == CACHES[name]
    cached = sum(work.cache for work in zoo.work_graph(name, context=300).works)
    assert cached == shape.cache_bytes(300)


@pytest.mark.parametrize(("weights", "size"), [("int8", 1), ("int4", 0.5), ("float32", 4)])
@pytest.mark.parametrize("name", ["llama2-7b", "mixtral-8x7b"])
def test_weights_of_other_formats(name: str, weights: str, size: float):
    plain, other = zoo.work_graph(name), zoo.work_graph(name, weights=weights)
    assert other.weight_bytes == pytest.approx(plain.weight_bytes * size / 2)
    assert other.parameters == pytest.approx(plain.parameters)
    assert [w.cache for w in other.works] == [w.cache for w in plain.works]
    assert [w.flops for w in other.works] == [w.flops for w in plain.works]


@pytest.mark.parametrize("name", ["gpt2-small", "mixtral-8x7b", "kimi-k2"])
def test_a_chunk_of_a_prompt_reads_weights_once_and_computes_for_every_token(name: str):
    step, chunk = (zoo.work_graph(name, tokens=n) for n in (1, 64))
    assert chunk.weight_bytes == step.weight_bytes
    heads = [next(w for w in g.works if w.op == "head").flops for g in (step, chunk)]
    assert heads[0] == heads[1]  # the last token alone is scored
    attention = [next(w for w in g.works if w.op == "attention") for g in (step, chunk)]
    assert 64 < attention[1].flops / attention[0].flops < 66
    assert attention[0].cache == attention[1].cache
    for before, after in zip(step.works, chunk.works, strict=True):
        assert before.id == after.id
        assert before.weights_read(1) <= after.weights_read(1)


@pytest.mark.parametrize("name", PUBLISHED)
def test_operations_and_parameters(name: str):
    graph = zoo.work_graph(name)
    parameters, operations = PUBLISHED[name]
    assert graph.parameters == pytest.approx(parameters, rel=0.02)
    assert graph.flops / 2e9 == pytest.approx(operations, rel=0.03)


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters(name: str):
    assert zoo.work_graph(name).parameters == pytest.approx(PARAMETERS[name], rel=0.01)


@pytest.mark.parametrize("name", ACTIVE)
def test_active_parameters(name: str):
    works = zoo.work_graph(name).works
    active = sum(work.weights_read(1) for work in works) / 2
    assert active == pytest.approx(ACTIVE[name], rel=0.05)


def test_a_step_of_gpt3_reads_350_gb_and_the_cache_of_its_context():
    graph = zoo.work_graph("gpt3-175b")
    assert graph.weight_bytes == pytest.approx(350e9, rel=0.01)
    # 96 layers, keys and values, 2048 tokens, 12288 wide, 2 bytes.
    assert sum(work.cache for work in graph.works) == 96 * 2 * 2048 * 12288 * 2


def test_sharding_keeps_work_and_weights():
    whole = zoo.work_graph("llama3-70b")
    parts = zoo.work_graph("llama3-70b", shards=8)
    assert parts.weight_bytes == whole.weight_bytes
    sums = sum(work.flops for work in parts.works if work.op == "sum")
    assert parts.flops - sums == pytest.approx(whole.flops, rel=1e-9)
    assert sum(w.op == "attention" for w in parts.works) == 8 * 80


def test_heads_in_groups_keep_work_and_weights():
    whole, parts = (zoo.work_graph("gpt-24", groups=g) for g in (1, 16))
    assert parts.weight_bytes == whole.weight_bytes
    assert parts.flops == pytest.approx(whole.flops)
    assert len(parts.works) == len(whole.works) + 24 * 15


def test_gpt_has_as_many_tasks_as_in_the_measurements():
    assert len(zoo.work_graph("gpt-24").works) == 196
    assert len(zoo.work_graph("gpt-96").works) == 772


def test_resnets_beyond_the_paper_grow_in_the_third_stage():
    deeper = zoo.work_graph("resnet152", depth=302)
    assert len(deeper.works) > len(zoo.work_graph("resnet152").works)
    assert sum(work.kind in ("conv", "gemm") for work in deeper.works) == 302 + 4


def test_lstm_cells_read_the_cell_below_and_the_cell_before():
    graph = zoo.work_graph("lstm", layers=2, steps=3)
    reads = {(edge.src, edge.dst) for edge in graph.edges}
    assert ("lstm", "lstm_1") in reads  # layer 0: cells 0, 1, 2; layer 1: cells 3, 4, 5
    assert {("lstm_1", "lstm_4"), ("lstm_3", "lstm_4")} <= reads
    assert sum(work.op == "lstm" for work in graph.works) == 6


def test_densenet_moves_every_tensor_on_its_own():
    graph = zoo.work_graph("densenet121")
    assert not any("concat" in work.op for work in graph.works)
    assert len(graph.edges) > 4 * len(graph.works)


@pytest.mark.parametrize(
    ("name", "parameters", "text"),
    [
        ("resnet50", {"depth": 51}, "depth 51: expected 18, 34"),
        ("vgg16", {"depth": 12}, "depth 12"),
        ("densenet121", {"depth": 120}, "depth 120"),
        ("inception-v3", {"resolution": 40}, "larger resolution"),
        ("unet", {"resolution": 500}, "a multiple of 16"),
        ("vit-base", {"resolution": 230}, "a multiple of the patch"),
        ("gpt-24", {"groups": 5}, "5 groups"),
        ("gpt3-175b", {"shards": 7}, "7 shards"),
        ("kimi-k2", {"groups": 7}, "divisor of 384"),
        ("gpt3-175b", {"model": "gpt4"}, "expected one of gpt2-small"),
        ("kimi-k2", {"model": "k3"}, "expected one of mixtral"),
        ("gpt2-xl", {"weights": "int9"}, "did you mean 'int"),
        ("lstm", {"cell": "rnn"}, "expected one of lstm, gru"),
        ("randwire-ws", {"model": "xx"}, "expected small or regular"),
        ("light-vgg19", {"model": "vgg18"}, "no stored network 'vgg18'"),
    ],
)
def test_what_does_not_fit_together_is_refused(name: str, parameters: dict, text: str):
    with pytest.raises(UsageError, match=text):
        zoo.work_graph(name, **parameters)
