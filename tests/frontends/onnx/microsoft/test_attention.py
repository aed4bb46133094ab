"""Attention and MultiHeadAttention beside ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.onnx.contributed import Draw, assert_same, number, one_node, rewritten
from tests.frontends.onnx.models import run
from tvm_hetero.errors import ModelError

BATCH, PLACES, HEADS, SIZE = 2, 5, 3, 4
HIDDEN = HEADS * SIZE

MASKS = {
    "none": None,
    "lengths": np.array([3, 5], np.int32),
    "ends and starts": np.array([3, 5, 1, 0], np.int32),
    "keys": np.array([[1, 1, 1, 0, 0], [0, 0, 1, 1, 1]], np.int32),
    "all padding": np.array([[1, 1, 1, 0, 0], [0] * 5], np.int32),
    "places and keys": Draw().below(2, BATCH, PLACES, PLACES),
}


def projected(d: Draw, places: int = PLACES) -> list[np.ndarray]:
    """Input, weights and bias of Attention."""
    return [d.normal(BATCH, places, 7), d.normal(7, 3 * HIDDEN), d.normal(3 * HIDDEN)]


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("unidirectional", [0, 1])
def test_masks_of_all_forms(mask: str, unidirectional: int) -> None:
    d = Draw()
    flags = {"num_heads": HEADS, "unidirectional": unidirectional}
    assert_same(*one_node("Attention", [*projected(d), MASKS[mask]], **flags))
    bias = d.normal(1, HEADS, PLACES, PLACES)
    assert_same(*one_node("Attention", [*projected(d), MASKS[mask], None, bias], **flags))


@pytest.mark.parametrize("places", [1, 4])
@pytest.mark.parametrize("unidirectional", [0, 1])
def test_the_past_lies_in_front(places: int, unidirectional: int) -> None:
    d = Draw()
    past, mask = d.normal(2, BATCH, HEADS, 6, SIZE), d.below(2, BATCH, 6 + places)
    flags = {"num_heads": HEADS, "unidirectional": unidirectional}
    operands = [*projected(d, places), mask, past]
    assert_same(*one_node("Attention", operands, results=2, **flags))


def test_factors_and_sizes_of_heads() -> None:
    d = Draw()
    masked = [*projected(d), MASKS["keys"]]
    assert_same(*one_node("Attention", masked, num_heads=HEADS, scale=0.3, mask_filter_value=-5.0))
    sizes = [HIDDEN, HIDDEN, 6]
    operands = [d.normal(BATCH, PLACES, 7), d.normal(7, sum(sizes))]
    assert_same(*one_node("Attention", operands, num_heads=HEADS, qkv_hidden_sizes=sizes))


@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("mask", ["none", "keys", "lengths", "places and keys"])
def test_other_keys_than_queries(with_bias: bool, mask: str) -> None:
    d, keys = Draw(), 6
    masks = {
        "none": None,
        "keys": d.below(2, BATCH, keys),
        "lengths": np.array([3, 6], np.int32),
        "places and keys": d.below(2, BATCH, PLACES, keys),
    }
    bias = d.normal(2 * HIDDEN + 6) if with_bias else None
    parts = [d.normal(BATCH, n, size) for n, size in ((PLACES, HIDDEN), (keys, HIDDEN), (keys, 6))]
    operands = [*parts, bias, masks[mask], d.normal(1, 1, PLACES, keys)]
    assert_same(*one_node("MultiHeadAttention", operands, num_heads=HEADS, results=3))


@pytest.mark.parametrize("places", [1, 4])
@pytest.mark.parametrize("unidirectional", [0, 1])
def test_keys_and_values_of_the_past(places: int, unidirectional: int) -> None:
    d = Draw()
    parts = [d.normal(BATCH, places, HIDDEN) for _ in range(3)]
    past = [d.normal(BATCH, HEADS, 6, SIZE) for _ in range(2)]
    operands = [*parts, d.normal(3 * HIDDEN), None, None, *past]
    flags = {"num_heads": HEADS, "unidirectional": unidirectional}
    assert_same(*one_node("MultiHeadAttention", operands, results=3, **flags))


@pytest.mark.parametrize("unidirectional", [0, 1])
@pytest.mark.parametrize("with_past", [False, True])
def test_attention_of_codes(unidirectional: int, with_past: bool) -> None:
    d = Draw()
    places, past = 4, 6 if with_past else 0
    codes = [d.codes(np.uint8, BATCH, places, 7), d.codes(np.int8, 7, 3 * HIDDEN)]
    scales = [d.normal(3 * HIDDEN), number(0.02), d.scales(3 * HIDDEN) / 10]
    ends = [d.below(2, BATCH, past + places), d.codes(np.uint8), np.zeros(3 * HIDDEN, np.int8)]
    before = [d.normal(2, BATCH, HEADS, past, SIZE)] if with_past else []
    flags = {"num_heads": HEADS, "unidirectional": unidirectional, "constants": (1, 3, 4, 6, 7)}
    operands = [*codes, *scales, *ends, *before]
    assert_same(*one_node("QAttention", operands, results=2 if with_past else 1, **flags))


def test_keys_that_are_split_already_have_their_bias() -> None:
    d = Draw()
    keys = [d.normal(BATCH, HEADS, 6, SIZE) for _ in range(2)]
    operands = [d.normal(BATCH, PLACES, HIDDEN), *keys, d.normal(3 * HIDDEN)]
    assert_same(*one_node("MultiHeadAttention", operands, num_heads=HEADS))


@pytest.mark.parametrize("count", [2, 3])
def test_packed_keys_are_taken_apart(count: int) -> None:
    """ONNX Runtime has no kernel of it for CPUs: it is what the parts give."""
    d = Draw()
    parts = [d.normal(BATCH, PLACES, HIDDEN) for _ in range(3)]
    packed = np.stack([p.reshape(BATCH, PLACES, HEADS, SIZE) for p in parts[-count:]], axis=3)
    operands = [packed] if count == 3 else [parts[0], packed]
    model, feeds = one_node("MultiHeadAttention", operands, num_heads=HEADS)
    plain, plain_feeds = one_node("MultiHeadAttention", parts, num_heads=HEADS)
    got, wanted = run(rewritten(model), feeds)[0], run(plain, plain_feeds)[0]
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


def test_what_lies_ahead_of_other_keys_is_not_guessed() -> None:
    d = Draw()
    parts = [d.normal(BATCH, n, HIDDEN) for n in (PLACES, 6, 6)]
    model, _ = one_node("MultiHeadAttention", parts, num_heads=HEADS, unidirectional=1)
    with pytest.raises(ModelError, match="is unidirectional, with 5 queries"):
        rewritten(model)
