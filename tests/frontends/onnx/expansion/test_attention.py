"""Attention of the standard domain, beside ONNX Runtime and onnx's own reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

from tests.frontends.onnx.expansion.test_walk import operators, same
from tests.frontends.onnx.running import Array, assert_same, typed_model
from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.onnx import from_onnx

RNG = np.random.default_rng(0)
BATCH, HEADS, KV, PLACES, KEYS, SIZE, VALUE = 2, 4, 2, 3, 5, 4, 6
OPERANDS = ("q", "k", "v", "mask", "past_key", "past_value", "length")


def normal(*dims: int) -> Array:
    """Random numbers."""
    return RNG.standard_normal(dims).astype(np.float32)


def split_operands(kv_heads: int = KV) -> dict[str, Array]:
    """Queries, keys and values by heads."""
    return {
        "q": normal(BATCH, HEADS, PLACES, SIZE),
        "k": normal(BATCH, kv_heads, KEYS, SIZE),
        "v": normal(BATCH, kv_heads, KEYS, VALUE),
    }


def attention(
    feeds: dict[str, Array],
    results: tuple[str, ...] = ("y",),
    constants: dict[str, Array] | None = None,
    opset: int = 23,
    **attributes: Any,
) -> onnx.ModelProto:
    """A model of one node, whose operands are those of `feeds` and of `constants`."""
    given = {**feeds, **(constants or {})}
    last = max(OPERANDS.index(name) for name in given)
    names = [name if name in given else "" for name in OPERANDS[: last + 1]]
    node = helper.make_node("Attention", names, results, "attend", **attributes)
    return typed_model([node], feeds, constants, opset, [name for name in results if name])


@pytest.mark.parametrize("kv_heads", [1, 2, 4])
@pytest.mark.parametrize("causal", [0, 1])
def test_heads_of_queries_read_their_keys(kv_heads: int, causal: int) -> None:
    feeds = split_operands(kv_heads)
    model = attention(feeds, is_causal=causal)
    graph = same(model, feeds)
    assert operators(graph).count("Expand") == 0, "keys are not repeated for each head"
    assert_same(model, feeds)


def test_heads_may_lie_side_by_side_and_have_a_past() -> None:
    feeds = {
        "q": normal(BATCH, PLACES, HEADS * SIZE),
        "k": normal(BATCH, PLACES, KV * SIZE),
        "v": normal(BATCH, PLACES, KV * VALUE),
        "past_key": normal(BATCH, KV, 2, SIZE),
        "past_value": normal(BATCH, KV, 2, VALUE),
    }
    results = ("y", "key", "value")
    attributes = {"q_num_heads": HEADS, "kv_num_heads": KV, "is_causal": 1, "scale": 0.3}
    assert_same(attention(feeds, results, **attributes), feeds)


@pytest.mark.parametrize("mode", range(4))
@pytest.mark.parametrize("softcap", [0.0, 1.5])
def test_scores_are_given_as_far_as_they_are_asked_for(mode: int, softcap: float) -> None:
    feeds = {**split_operands(), "mask": normal(PLACES, KEYS)}
    model = attention(
        feeds, ("y", "", "", "scores"), qk_matmul_output_mode=mode, softcap=softcap, scale=0.7
    )
    assert_same(model, feeds)


def masks() -> dict[str, Array]:
    """Masks of booleans and numbers; of some a place reads nothing."""
    some = RNG.integers(0, 2, (BATCH, 1, PLACES, KEYS)).astype(bool)
    some[0, 0, 1] = False
    return {
        "booleans": some,
        "numbers": np.where(some, normal(*some.shape), -np.inf).astype(np.float32),
        "flat": normal(PLACES, KEYS),
    }


@pytest.mark.parametrize("kind", ["booleans", "numbers", "flat"])
@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("results", [("y",), ("y", "", "", "weights")])
def test_masks_are_booleans_or_numbers_and_may_hide_all(
    kind: str, constant: bool, results: tuple[str, ...]
) -> None:
    mask = {"mask": masks()[kind]}
    feeds = split_operands() if constant else {**split_operands(), **mask}
    model = attention(
        feeds, results, mask if constant else None, is_causal=1, qk_matmul_output_mode=3
    )
    assert_same(model, feeds)


def test_a_mask_may_be_shorter_than_what_is_read_from_opset_24_on() -> None:
    for mask in (normal(PLACES, KEYS - 2), RNG.integers(0, 2, (PLACES, KEYS - 2)).astype(bool)):
        feeds = {**split_operands(), "mask": mask}
        model = attention(feeds, opset=24)
        assert_same(model, feeds, ReferenceEvaluator(model).run(None, feeds))


@pytest.mark.parametrize("causal", [0, 1])
def test_a_cache_outside_of_the_node_is_read_as_far_as_it_is_filled(causal: int) -> None:
    feeds = {**split_operands(), "length": np.array([3, 5], np.int64)}
    assert_same(attention(feeds, opset=24, is_causal=causal), feeds)


@pytest.mark.parametrize("with_lengths", [False, True])
@pytest.mark.parametrize(("left", "right"), [(1, -1), (0, 1), (-1, 0), (2, 2)])
def test_windows_bound_what_is_read_on_either_side(
    left: int, right: int, with_lengths: bool
) -> None:
    feeds = split_operands()
    if with_lengths:
        feeds["length"] = np.array([4, 5], np.int64)
    model = attention(feeds, opset=25, left_window_size=left, right_window_size=right)
    assert_same(model, feeds, ReferenceEvaluator(model).run(None, feeds))


def test_half_precision_is_scaled_on_both_sides_and_may_be_softened_in_single() -> None:
    feeds = {name: x.astype(np.float16) for name, x in split_operands().items()}
    feeds["q"] *= np.float16(200)
    feeds["k"] *= np.float16(200)
    model = attention(feeds, softmax_precision=onnx.TensorProto.FLOAT)
    assert_same(model, feeds, rtol=2e-2, atol=2e-2)


def test_what_onnx_excludes_is_refused_by_name() -> None:
    feeds = split_operands()
    past = {"past_key": normal(BATCH, KV, 2, SIZE)}
    with pytest.raises(ModelError, match=r"'attend' \(Attention\) has past keys without"):
        from_onnx(attention({**feeds, **past}))
    flat = {name: normal(BATCH, PLACES, 12) for name in feeds}
    with pytest.raises(ModelError, match="q_num_heads = 5, which does not divide"):
        from_onnx(attention(flat, q_num_heads=5, kv_num_heads=2))
