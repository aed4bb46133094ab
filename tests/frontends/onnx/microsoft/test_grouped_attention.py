"""GroupQueryAttention beside ONNX Runtime: prompts, further tokens, chunks, and its options."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from tests.frontends.onnx.contributed import Draw, assert_same, one_node, rewritten
from tvm_hetero.errors import ModelError

HEADS, KV_HEADS, SIZE = 4, 2, 16


def grouped(
    places: int,
    past: int,
    last: list[int],
    total: int,
    *,
    packed: bool = False,
    extra: tuple[np.ndarray | None, ...] = (),
    **attributes: Any,
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """A node on a batch of so many places, behind a cache with room for `past` of them."""
    d, batch = Draw(), len(last)
    if packed:
        parts = [d.normal(batch, places, (HEADS + 2 * KV_HEADS) * SIZE), None, None]
    else:
        parts = [d.normal(batch, places, n * SIZE) for n in (HEADS, KV_HEADS, KV_HEADS)]
    cache = [d.normal(batch, KV_HEADS, past, SIZE) if past else None for _ in range(2)]
    tables = [d.normal(32, SIZE // 2) for _ in range(2)]
    counts = [np.array(last, np.int32), np.array(total, np.int32)]
    operands = [*parts, *cache, *counts, *tables, *extra]
    given = {"num_heads": HEADS, "kv_num_heads": KV_HEADS, "do_rotary": 1, **attributes}
    return one_node("GroupQueryAttention", operands, results=3, constants=(6,), **given)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("places", "past", "last", "total"),
    [
        (5, 0, [4, 4], 5),  # a prompt
        (5, 10, [4, 4], 5),  # a prompt, into a cache with room for more
        (1, 6, [6, 6], 7),  # a token
        (1, 10, [6, 3], 7),  # a token, of sequences of unequal lengths
        (3, 6, [8], 9),  # more tokens of one sequence
        (3, 10, [8], 9),
    ],
)
def test_the_cache_is_filled_and_read(
    places: int, past: int, last: list[int], total: int, packed: bool
) -> None:
    assert_same(*grouped(places, past, last, total, packed=packed))


@pytest.mark.parametrize(
    "attributes",
    [
        {"rotary_interleaved": 1},
        {"do_rotary": 0},
        {"local_window_size": 2},
        {"softcap": 1.5},
        {"smooth_softmax": 1},
        {"scale": 0.2},
        {"causal": 0},
    ],
    ids=str,
)
def test_options_are_honoured(attributes: dict[str, Any]) -> None:
    assert_same(*grouped(5, 0, [4], 5, **attributes))
    assert_same(*grouped(1, 10, [6], 7, **attributes))


def test_positions_biases_and_sinks() -> None:
    d = Draw()
    bias, sink = d.normal(1, HEADS, 1, 7), d.normal(HEADS)
    assert_same(*grouped(5, 0, [4], 5, extra=(np.arange(5)[None] + 3,)))
    assert_same(*grouped(1, 6, [6, 3], 7, extra=(np.array([[4], [9]]),)))
    assert_same(*grouped(1, 10, [6], 7, extra=(None, bias)))
    assert_same(*grouped(1, 6, [6, 3], 7, extra=(None, None, sink), softcap=2.0))


def test_what_decides_the_shapes_must_be_known() -> None:
    model, _ = grouped(1, 6, [6], 7)
    del model.graph.initializer[:]
    model.graph.input.append(onnx.helper.make_tensor_value_info("x6", onnx.TensorProto.INT32, []))
    with pytest.raises(ModelError, match="takes its total_sequence_length from 'x6'"):
        rewritten(model)


def test_a_quantized_cache_is_refused() -> None:
    model, _ = grouped(1, 6, [6], 7, k_quant_type="PER_TENSOR")
    with pytest.raises(ModelError, match=r"has k_quant_type = .*PER_TENSOR"):
        rewritten(model)
