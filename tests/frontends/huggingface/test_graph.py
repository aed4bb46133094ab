"""The graphs of decoders: their inputs, states and attributes, and how fine their tasks are."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from pathlib import Path

import pytest
import tvm
from tvm.ir import GenericConst

from tests.frontends.huggingface.decoder_runs import TARGET
from tests.small_decoders import tiny
from tvm_hetero.frontends.huggingface import from_huggingface, read_config
from tvm_hetero.frontends.huggingface.shards import head_groups, unit_groups
from tvm_hetero.passes.lower_to_tasks import LowerToTasks
from tvm_hetero.passes.lowered_main import LoweredMain, read_main
from tvm_hetero.passes.states import ranges_of, state_readers


def read(mod: tvm.IRModule) -> LoweredMain:
    return read_main(LowerToTasks([TARGET])(mod))


def kinds(main: LoweredMain) -> Counter[str]:
    """How many tasks there are of each kernel, kernels that differ by a number taken as one."""
    return Counter(re.sub(r"\d+", "", call.kernel.name_hint) for call in main.calls)


def test_inputs_are_those_of_the_contract(tmp_path):
    folder = tiny("llama", tmp_path / "a model")
    mod = from_huggingface(folder, tokens=4, length=48, shards=2, cache="bfloat16")
    main, attributes = read(mod), mod["main"].attrs
    states = [f"{kind}.{layer}.{shard}" for layer in range(2) for shard in range(2)
              for kind in ("key", "value")]  # fmt: skip
    assert list(main.inputs) == ["token", "position", "last", *states]
    assert list(attributes["hetero_states"]) == states
    assert list(attributes["hetero_output_names"]) == ["logits"]
    assert attributes["hetero_model_name"] == "a_model"
    assert ranges_of(main) == {"token": (0, 95), "position": (0, 47), "last": (0, 3)}
    types = [([int(e) for e in p.ty.shape], str(p.ty.dtype)) for p in main.params]
    assert types[:3] == [([4], "int32"), ([1], "int32"), ([1], "int32")]
    assert types[3:] == [([1, 48, 8], "bfloat16")] * 8
    (result,) = main.results()
    assert [int(e) for e in result.ty.shape] == [1, 96]
    note = json.loads(attributes["hetero_source"])
    config = (folder / "config.json").read_bytes()
    assert note["sha256"] == hashlib.sha256(config).hexdigest()
    assert Path(note["path"]) == folder


def test_a_step_has_no_last_and_every_state_has_a_reader_of_its_layer(tmp_path):
    main = read(from_huggingface(tiny("gpt2", tmp_path), shards=2))
    assert main.inputs[:3] == ("token", "position", "key.0.0")
    readers = state_readers(main)
    assert len(readers) == 8
    assert len(set(readers.values())) == 4  # keys and values of a shard share their kernel
    assert all("attention" in main.task_ids[call] for call in readers.values())


@pytest.mark.parametrize(
    ("family", "expected"),
    [
        (
            "gpt2",
            {"embed": 1, "layer_norm": 5, "fused_dense_add": 6, "attention": 2,
             "fused_dense_add_add": 4, "fused_dense_add_gelu_tanh": 2, "dense": 1},
        ),
        (
            "llama",
            {"embed": 1, "rms_norm": 5, "dense": 9, "attention": 2, "fused_dense_add": 4,
             "fused_dense_silu_multiply": 2},
        ),
        (
            "mixtral",
            {"embed": 1, "rms_norm": 5, "dense": 9, "attention": 2, "fused_dense_add": 2,
             "choose": 2, "fused_dense_gated": 16, "total": 2,
             "fused_dense_silu_gated_multiply_gated": 8},
        ),
    ],
)  # fmt: skip
def test_tasks_are_few_and_norms_are_one_each(family, expected, tmp_path):
    main = read(from_huggingface(tiny(family, tmp_path)))
    assert kinds(main) == expected


@pytest.mark.parametrize(
    ("family", "expected"),
    [
        (
            "gpt2",
            {"embed": 1, "fused_layer_norm_cast": 5, "fused_dense_add": 6, "attention": 2,
             "cast": 2, "fused_dense_add_add": 4, "fused_dense_add_gelu_tanh_cast": 2, "dense": 1},
        ),
        (
            "mixtral",
            {"embed": 1, "fused_rms_norm_cast": 5, "dense": 9, "attention": 2, "cast": 2,
             "fused_dense_add": 2, "choose": 2, "fused_dense_gated": 16, "total": 2,
             "fused_dense_silu_gated_multiply_cast_gated": 8},
        ),
    ],
)  # fmt: skip
def test_what_rounded_matrices_are_multiplied_by_is_rounded_once(family, expected, tmp_path):
    main = read(from_huggingface(tiny(family, tmp_path), weights="bfloat16"))
    assert kinds(main) == expected
    products = [call for call in main.calls if "dense" in call.kernel.name_hint]
    assert {str(call.args[0].ty.dtype) for call in products} == {"bfloat16"}


def test_shards_are_tasks_of_their_own_and_so_are_their_sums(tmp_path):
    one, two = (read(from_huggingface(tiny("llama", tmp_path), shards=n)) for n in (1, 2))
    assert kinds(two)["attention"] == 2 * kinds(one)["attention"]
    assert kinds(two)["total"] == 4  # of two layers: the heads' and the units'
    totals = [call for call in two.calls if "total" in call.kernel.name_hint]
    for call in totals:
        parts = [root.call for root in two.reads(call)]
        # Only what was there before is read by several: no part waits for another one.
        assert not any(
            set(parts[1:]) & {r.call for r in two.reads(two.calls[p])} for p in parts[1:]
        )


def test_the_table_of_angles_is_one_constant(tmp_path):
    main = read(from_huggingface(tiny("llama", tmp_path), shards=2))
    calls = [call for call in main.calls if "attention" in call.kernel.name_hint]
    assert len(calls) == 4
    assert len({main.constants(call)[6] for call in calls}) == 1


def test_heads_and_units_are_divided_without_a_rest(tmp_path):
    changes = {"num_attention_heads": 10, "num_key_value_heads": 5, "head_dim": 8,
               "intermediate_size": 301}  # fmt: skip
    config = read_config(tiny("llama", tmp_path, **changes))
    for shards in (1, 2, 3, 5):
        heads, units = head_groups(config, shards), unit_groups(config, shards)
        assert [h for group in heads for h in range(10)[group.queries]] == list(range(10))
        assert [h for group in heads for h in range(5)[group.kv]] == list(range(5))
        assert [u for group in units for u in range(301)[group]] == list(range(301))
        assert all(group.count == 2 * group.kv_count for group in heads)
        assert max(g.kv_count for g in heads) - min(g.kv_count for g in heads) <= 1


@pytest.mark.parametrize(("dtype", "weights"), [("bfloat16", "float32"), ("float32", "bfloat16")])
def test_narrow_weights_stay_narrow(dtype, weights, tmp_path):
    folder = tiny("gpt2", tmp_path, dtype=dtype)
    main = read(from_huggingface(folder, weights=weights))
    matrices = [
        arg
        for call in main.calls
        for arg in call.args
        if isinstance(arg, GenericConst) and len(arg.ty.shape) in (2, 4)
    ]
    assert len(matrices) == 2 + 12 + 1
    assert {str(arg.ty.dtype) for arg in matrices} == {"bfloat16"}
