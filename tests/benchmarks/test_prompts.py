"""The benchmark of prompts: what its small mode says, with llama.cpp and without."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import prompts
from benchmarks.decoding.llama_cpp_peer import is_installed
from benchmarks.decoding.model import write_model
from tvm_hetero.decoders.decoder import Decoder


def test_prompts_are_read_on_one_core_and_on_two(tmp_path, capsys):
    rows = prompts.main(["--small", "--folder", str(tmp_path)])
    assert [row.cores for row in rows] == [1, 2]
    assert all(0 < row.seconds <= row.median for row in rows)
    assert all((row.ratio is not None) == is_installed() for row in rows)
    assert all(row.apart is None or row.apart < 1e-2 for row in rows)
    printed = capsys.readouterr().out.splitlines()
    assert len([line for line in printed if line.startswith("float32")]) == 2
    _check_chunks_by_steps(tmp_path)


def _check_chunks_by_steps(folder):
    """What a prompt's chunks give is what its tokens give one by one."""
    prompt = np.arange(48, dtype=np.int32)
    with Decoder.load(folder / "tiny-float32-1-16.hetero") as decoder:
        _, logits = prompts.read_prompt(decoder, prompt)
        for at, token in enumerate(prompt.tolist()):
            (last,) = decoder.step(0, [token], [at]).result()
    np.testing.assert_allclose(logits, last, rtol=1e-3, atol=1e-3 * np.abs(last).max())


def row(ours, theirs):
    return prompts.PromptRow("int8", 1, 256, 256, ours, ours, theirs, theirs, None)


@pytest.mark.parametrize(("theirs", "ratio"), [(0.5, 2.0), (None, None)])
def test_the_ratio_is_of_paces(theirs, ratio):
    assert row(0.25, theirs).ratio == ratio


def test_all_weights_of_ours_have_a_name_in_files_of_llama_cpp(tmp_path):
    from benchmarks.decoding.llama_cpp_peer import TYPES, _tensors

    assert tuple(TYPES) == tuple(prompts.WEIGHTS)
    import safetensors.numpy

    model = write_model("tiny", tmp_path / "tiny")
    tensors = safetensors.numpy.load_file(model / "model.safetensors")
    kinds = {name: kind for name, _, kind in _tensors(tensors, 2, "int4")}
    assert len(kinds) == 5 + 2 * 12  # nothing of the model is left out
    assert kinds["output.weight"] == "Q8_0" and kinds["blk.1.ffn_up.weight"] == "Q4_0"
    assert kinds["blk.1.ffn_up.bias"] == kinds["blk.0.attn_norm.weight"] == "F32"
