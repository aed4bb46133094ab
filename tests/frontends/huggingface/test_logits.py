"""Decoders from folders against transformers: the same logits, step by step and by chunks."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.frontends.huggingface.decoder_runs import Runner, expected, reference
from tests.small_decoders import tiny
from tvm_hetero.kernels.quantized.product import quantize

TOKENS = [17, 3, 88, 3, 41, 95, 0, 62, 62, 9, 30, 77]
LLAMA3 = {
    "rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}  # fmt: skip
# Every family with what it may have beside its plain form (`tiny` alone): scales, biases, sizes
# of heads, ties; and in how many shards.
CASES = {
    "gpt2": (
        {
            "scale_attn_by_inverse_layer_idx": True, "n_inner": 80, "activation_function": "gelu",
            "tie_word_embeddings": False,
        },
        2,
    ),
    "llama": (
        {
            "rope_scaling": LLAMA3, "rope_theta": 500.0, "head_dim": 12, "attention_bias": True,
            "mlp_bias": True, "tie_word_embeddings": True, "hidden_act": "gelu_pytorch_tanh",
        },
        2,
    ),
    "mistral": ({"sliding_window": len(TOKENS)}, 1),
    "qwen2": ({"tie_word_embeddings": True}, 2),
    "mixtral": ({"num_local_experts": 3, "num_experts_per_tok": 1}, 1),
    "mixtral of one": ({"num_local_experts": 1, "num_experts_per_tok": 1}, 1),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_steps_give_the_logits_of_transformers(case, tmp_path):
    changes, shards = CASES[case]
    folder = tiny(case.split()[0], tmp_path, seed=5, **changes)
    wanted = expected(reference(folder), TOKENS)
    step = Runner(folder, length=len(TOKENS), shards=shards)
    got = np.array([step([token], row) for row, token in enumerate(TOKENS)])
    np.testing.assert_allclose(got, wanted, atol=1e-4)
    np.testing.assert_array_equal(got.argmax(1), wanted.argmax(1))


@pytest.mark.parametrize(("family", "shards"), [("gpt2", 1), ("llama", 1), ("mixtral", 2)])
def test_chunks_and_then_steps_give_the_same(family, shards, tmp_path):
    folder = tiny(family, tmp_path, seed=6)
    wanted = expected(reference(folder), TOKENS)
    step = Runner(folder, length=11, shards=shards)
    chunk = Runner(folder, step.caches, tokens=4, length=11, shards=shards)
    # The second chunk is padded, and so is the last, beyond the end of the caches.
    np.testing.assert_allclose(chunk(TOKENS[:4], 0), wanted[3], atol=1e-4)
    np.testing.assert_allclose(chunk(TOKENS[4:6], 4), wanted[5], atol=1e-4)
    for row in (6, 7, 8):
        np.testing.assert_allclose(step([TOKENS[row]], row), wanted[row], atol=1e-4)
    np.testing.assert_allclose(chunk(TOKENS[9:11], 9), wanted[10], atol=1e-4)
    if family == "gpt2":
        # Whatever the numbers are, nothing is read or written beyond the tables and caches.
        last = step([95], 10)
        np.testing.assert_array_equal(step([95], 2**31 - 1), last)
        np.testing.assert_array_equal(step([0], -5), step([0], 0))
        for token in (96, 2**31 - 1, -1, -(2**31)):
            with pytest.raises(IndexError, match=f"index {token} is out of bounds for axis 0"):
                step([token], 0)
        assert np.isfinite(last).all()


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_bfloat16_is_a_model_that_was_rounded_and_rounds_what_it_multiplies(family, tmp_path):
    folder = tiny(family, tmp_path)
    exact = expected(reference(folder), TOKENS)
    model = reference(folder, "bfloat16")
    only_weights = expected(model, TOKENS)
    for module in model.modules():
        if type(module).__name__ in ("Linear", "Conv1D"):
            module.register_forward_pre_hook(lambda _, args: (args[0].bfloat16().float(),))
    wanted = expected(model, TOKENS)
    got = _logits_of_bfloat16(folder)
    # What lies in the middle of two numbers may be rounded to one by us, to the other by PyTorch.
    assert np.median(np.abs(got - wanted)) < 0.1 * np.median(np.abs(got - only_weights))
    np.testing.assert_allclose(got, wanted, atol=5e-3)
    assert 1e-3 < np.abs(got - exact).max() < 0.2


def test_experts_of_bfloat16(tmp_path):
    """Their matrices are no modules in transformers, so only the size of the error is known."""
    folder = tiny("mixtral", tmp_path)
    exact = expected(reference(folder), TOKENS)
    rounded = np.abs(expected(reference(folder, "bfloat16"), TOKENS) - exact).max()
    assert rounded / 2 < np.abs(_logits_of_bfloat16(folder) - exact).max() < 3 * rounded


def _logits_of_bfloat16(folder):
    step = Runner(folder, length=len(TOKENS), weights="bfloat16")
    return np.array([step([token], row) for row, token in enumerate(TOKENS)])


def test_weights_of_four_bits_are_those_of_a_model_that_was_quantised(tmp_path):
    """Matrices of the layers have 4 bits, the head has 8; transformers gets their values."""
    folder = tiny("llama", tmp_path)
    model = reference(folder)
    exact = expected(model, TOKENS)
    for name, weight in model.named_parameters():
        if weight.ndim == 2 and "embed" not in name:
            matrix = quantize(weight.detach().numpy().T, 8 if "head" in name else 4)
            weight.data = torch.tensor(matrix.dense().T)
    step = Runner(folder, length=len(TOKENS), weights="int4")
    got = np.array([step([token], row) for row, token in enumerate(TOKENS)])
    # Codes are put into floats with an offset that is taken out of the sum again: so many digits
    # go with it, far fewer than the codes themselves cost.
    np.testing.assert_allclose(got, expected(model, TOKENS), atol=1e-3)
    assert 1e-2 < np.abs(got - exact).max() < 2
