"""Decoders of transformers that we do not read ourselves, exported with our attention in them."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
import transformers
import tvm
from tvm import relax

from tests.frontends.huggingface.decoder_runs import TARGET, expected
from tests.kernels.helpers import scheduled
from tvm_hetero.errors import ModelError, UsageError
from tvm_hetero.frontends.torch.attention_op import attend
from tvm_hetero.frontends.torch.export import from_exported
from tvm_hetero.frontends.torch.transformers import cache_name, export_transformers
from tvm_hetero.kernels.cpu.compilation import PIPELINE
from tvm_hetero.passes.lower_to_tasks import LowerToTasks
from tvm_hetero.passes.lowered_main import read_main
from tvm_hetero.passes.states import state_readers

TOKENS = [17, 3, 88, 3, 41, 95, 0]
LENGTH = 7


def model(name: str, **changes: Any) -> Any:
    """A tiny model of a family, its weights large enough that tokens differ."""
    given = {
        "vocab_size": 96, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64,
        "pad_token_id": 0, **changes,
    }  # fmt: skip
    torch.manual_seed(0)
    made = getattr(transformers, f"{name}ForCausalLM")(
        getattr(transformers, f"{name}Config")(**given)
    )
    for parameter in made.parameters():
        parameter.data *= 3
    return made.eval()


def test_an_exported_decoder_gives_what_it_gave():
    made, tokens = model("Qwen3", head_dim=8, num_hidden_layers=1), 3
    implementation = made.config._attn_implementation
    program, states = export_transformers(made, length=LENGTH, tokens=tokens)
    assert made.config._attn_implementation == implementation
    wanted = expected(made, TOKENS)
    main = LowerToTasks([TARGET])(from_exported(program, states=states, length=LENGTH))
    readers = state_readers(read_main(main))
    assert len(readers) == 2 and len(set(readers.values())) == 1  # attention itself, no copies
    executable = tvm.compile(scheduled(main, TARGET), TARGET, tir_pipeline=PIPELINE)
    run = relax.VirtualMachine(executable, tvm.cpu())["main"]
    shapes = [[int(e) for e in p.ty.shape] for p in main["main"].params[-2:]]
    caches = [tvm.runtime.tensor(np.full(shape, np.nan, np.float32)) for shape in shapes]
    for row in range(0, len(TOKENS), tokens):
        given = TOKENS[row : row + tokens]
        inputs = [given + [0] * (tokens - len(given)), [row]]
        inputs.append([len(given) - 1])
        got = run(*(tvm.runtime.tensor(np.int32(i)) for i in inputs), *caches).numpy()
        np.testing.assert_allclose(got[0], wanted[row + len(given) - 1], atol=1e-4)


@pytest.mark.parametrize("kind", ["bfloat16", "float16"])
def test_a_model_of_sixteen_bits_is_as_exact_as_in_torch(kind):
    made = model("Qwen3", head_dim=8, num_hidden_layers=1).to(getattr(torch, kind))
    exact = expected(copy.deepcopy(made).float(), TOKENS)
    with torch.no_grad():
        theirs = made(torch.tensor([TOKENS])).logits[0].float().numpy()
    program, states = export_transformers(made, length=LENGTH)
    main = LowerToTasks([TARGET])(from_exported(program, states=states, length=LENGTH))
    caches = [p.ty for p in main["main"].params[-2:]]
    assert {str(ty.dtype) for ty in caches} == {kind}
    executable = tvm.compile(scheduled(main, TARGET), TARGET, tir_pipeline=PIPELINE)
    run = relax.VirtualMachine(executable, tvm.cpu())["main"]
    made_of = {"bfloat16": ml_dtypes.bfloat16, "float16": np.float16}[kind]
    state = [
        tvm.runtime.tensor(np.full([int(e) for e in ty.shape], np.nan, made_of)) for ty in caches
    ]
    given = [[tvm.runtime.tensor(np.int32([n])) for n in pair]
             for pair in zip(TOKENS, range(LENGTH), strict=True)]  # fmt: skip
    got = np.array([run(*inputs, *state).numpy()[0] for inputs in given])
    assert got.dtype == np.float32
    assert 0 < np.abs(got - exact).max() < 2 * np.abs(theirs - exact).max()


def test_the_documentations_example_runs(tmp_path):
    text = (Path(__file__).parents[3] / "docs" / "decoders.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"^```python\n(.*?)^```", text, re.S | re.M)
    model("Phi", num_hidden_layers=1).save_pretrained(tmp_path)
    names: dict[str, Any] = {"FOLDER": tmp_path, "LENGTH": LENGTH}
    exec(example, names)
    assert list(names["step"]["main"].attrs["hetero_states"]) == ["caches_0", "caches_1"]


def test_the_operation_is_attention_in_torch_too():
    """Against torch's own, with rows beyond the end of the caches and rows that nobody wrote."""
    generator = torch.Generator().manual_seed(2)
    q, k, v = (torch.randn(n, h, 8, generator=generator) for n, h in ((5, 4), (5, 2), (5, 2)))
    caches = [torch.full((2, 4, 8), torch.nan) for _ in range(2)]
    one, *caches = attend(q[:2], k[:2], v[:2], torch.tensor([0]), *caches, 0.3)
    other, *caches = attend(q[2:], k[2:], v[2:], torch.tensor([2]), *caches, 0.3)
    wanted = torch.nn.functional.scaled_dot_product_attention(
        *(x[:4].transpose(0, 1) for x in (q, k, v)), is_causal=True, scale=0.3, enable_gqa=True
    ).transpose(0, 1)
    torch.testing.assert_close(torch.cat([one, other[:2]]), wanted)
    torch.testing.assert_close(caches[1], v[:4].transpose(0, 1))
    torch.library.opcheck(attend, (q, k, v, torch.tensor([1]), *caches, 0.3),
                          test_utils=("test_schema", "test_faketensor"))  # fmt: skip


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        ("Gemma2", {}, "attention with softcap=50.0 is not supported: expected softmax over all"),
        ("Mistral", {"sliding_window": 4}, "attention with sliding_window=4 is not supported"),
        ("Bloom", {}, "BloomForCausalLM does not call attention by name.*a function of your own"),
        (
            "GPTNeo",
            {"num_layers": 2, "attention_types": [[["global"], 2]]},
            "GPTNeoForCausalLM does not call attention by name",
        ),
    ],
)
def test_attention_of_another_kind_is_refused(name, changes, words):
    made = model(name, **changes)
    before = made.config._attn_implementation
    with pytest.raises(ModelError, match=words):
        export_transformers(made, length=LENGTH)
    assert made.config._attn_implementation == before


def test_what_a_model_asks_the_cache_for_in_vain_is_named():
    made = model("Phi", num_hidden_layers=1)
    made.model.register_forward_pre_hook(
        lambda inner, args, named: named[cache_name(inner)].crop(1), with_kwargs=True
    )
    words = "PhiForCausalLM .* asks the cache for 'crop', .* not give; export it with a function"
    with pytest.raises(ModelError, match=words):
        export_transformers(made, length=LENGTH)


def test_caches_are_called_as_the_model_calls_them():
    """transformers 5.24 renamed the argument, and 5.40 is to refuse the old name."""

    class Before(torch.nn.Module):
        def forward(self, input_ids: Any, past_key_values: Any = None) -> None: ...

    class Since(torch.nn.Module):
        def forward(self, input_ids: Any, cache: Any = None, **others: Any) -> None: ...

    assert [cache_name(kind()) for kind in (Before, Since)] == ["past_key_values", "cache"]
    with pytest.raises(ModelError, match="Linear takes no caches: expected an argument cache or"):
        cache_name(torch.nn.Linear(1, 1))


def test_lengths_out_of_their_range_are_refused():
    with pytest.raises(UsageError, match="tokens=3, length=2: expected 1 <= tokens <= length"):
        export_transformers(model("Phi"), length=2, tokens=3)


def test_caches_that_are_no_states_are_refused():
    program, states = export_transformers(model("Phi", num_hidden_layers=1), length=LENGTH)
    del states["caches_1"]
    with pytest.raises(UsageError, match="'caches_1' of the program is none of token, position"):
        from_exported(program, states=states)
    with pytest.raises(ModelError, match=r"is read by attend\.default, and output 2 is"):
        from_exported(program, states={"caches_0": 2, "caches_1": 1})
