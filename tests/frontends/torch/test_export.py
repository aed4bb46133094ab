"""Decoders through ``torch.export``: what torch computes, with caches that are written in place."""

from __future__ import annotations

import functools
import json

import numpy as np
import pytest
import torch
import tvm
from torch import nn
from tvm import relax

from tests.frontends.huggingface.decoder_runs import TARGET
from tests.kernels.helpers import scheduled
from tvm_hetero.errors import ModelError, UsageError
from tvm_hetero.frontends.torch.export import from_exported
from tvm_hetero.kernels.cpu.compilation import PIPELINE
from tvm_hetero.passes.lower_to_tasks import LowerToTasks
from tvm_hetero.passes.lowered_main import read_main
from tvm_hetero.passes.states import state_readers

HEADS, SIZE, WIDTH, LENGTH, VOCABULARY = 2, 4, 8, 6, 11
STATES = {"caches_0": 1, "caches_1": 2}


class Decoder(nn.Module):
    """One layer of attention over explicit caches; ``how`` says in which words they are updated."""

    def __init__(self, how: str) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.how = how
        self.table = nn.Embedding(VOCABULARY, WIDTH)
        self.places = nn.Embedding(LENGTH, WIDTH)
        self.inward = nn.Linear(WIDTH, 3 * WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY)
        self.eval().requires_grad_(False)

    def forward(self, token, position, caches):
        rows = position + torch.arange(token.shape[0])
        x = self.table(token) + self.places(rows.clamp(0, LENGTH - 1))
        parts = self.inward(x).reshape(-1, 3, HEADS, SIZE).permute(1, 2, 0, 3)
        keys, values = (
            self.update(cache, new, rows) for cache, new in zip(caches, parts[1:], strict=True)
        )
        seen = torch.arange(LENGTH)[None] <= rows[:, None]
        scores = (parts[0] @ keys.transpose(1, 2)).masked_fill(~seen, -1e9)
        found = (scores.softmax(-1) @ values).permute(1, 0, 2).reshape(-1, WIDTH)
        return self.head(x + found), keys, values

    def update(self, cache, new, rows):
        if self.how == "index_copy":
            return cache.index_copy(1, rows, new)
        if self.how == "index_put":
            cache = cache.clone()
            cache[:, rows] = new
            return cache
        given = (torch.arange(LENGTH) == rows)[:, None]
        return torch.where(given, new, cache) if self.how == "where" else given * new + cache


@functools.cache
def exported(how: str, tokens: int = 1) -> torch.export.ExportedProgram:
    caches = [torch.zeros(HEADS, LENGTH, SIZE) for _ in range(2)]
    args = (torch.zeros(tokens, dtype=torch.int64), torch.zeros(1, dtype=torch.int64), caches)
    return torch.export.export(Decoder(how), args)


@pytest.mark.parametrize(("how", "tokens"), [("index_copy", 1), ("where", 1), ("index_put", 4)])
def test_a_program_gives_what_torch_gives_and_updates_in_place(how, tokens):
    mod = from_exported(exported(how, tokens), states=STATES, length=LENGTH, name="a b")
    lowered = LowerToTasks([TARGET])(mod)
    attributes = lowered["main"].attrs
    assert list(attributes["hetero_states"]) == list(STATES)
    assert attributes["hetero_model_name"] == "a_b"
    ranges = json.loads(attributes["hetero_input_ranges"])
    assert ranges["token"] == [0, VOCABULARY - 1] and ranges["position"] == [0, LENGTH - 1]
    assert len(set(state_readers(read_main(lowered)).values())) == 2
    executable = tvm.compile(scheduled(lowered, TARGET), TARGET, tir_pipeline=PIPELINE)
    run = relax.VirtualMachine(executable, tvm.cpu())["main"]
    ours = [tvm.runtime.tensor(np.zeros((HEADS, LENGTH, SIZE), np.float32)) for _ in range(2)]
    theirs = [torch.zeros(HEADS, LENGTH, SIZE) for _ in range(2)]
    text = [3, 10, 0, 7, 7, 2]
    for row in range(0, LENGTH, tokens):
        given = text[row : row + tokens]
        inputs = [given + [0] * (tokens - len(given)), [row]]
        inputs += [[len(given) - 1]] if tokens > 1 else []
        got = run(*(tvm.runtime.tensor(np.int32(i)) for i in inputs), *ours).numpy()
        logits, *theirs = Decoder("index_copy")(torch.tensor(given), torch.tensor([row]), theirs)
        np.testing.assert_allclose(got, logits[-1:].numpy(), atol=1e-5)
        for one, other in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(one.numpy(), other.numpy(), atol=1e-5)


def test_programs_that_update_otherwise_are_refused():
    with pytest.raises(ModelError, match=r"'caches_0' is read by add.Tensor, and output 1 is what"):
        from_exported(exported("sum"), states=STATES)
    with pytest.raises(ModelError, match=r"is read by index_put.*, and output 2 is what index_put"):
        from_exported(exported("index_copy"), states={"caches_0": 2, "caches_1": 1})
    with pytest.raises(UsageError, match=r"length is not given, and no cache is written by rows"):
        from_exported(exported("where"), states=STATES)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"states": {"cache_0": 1, "caches_1": 2}}, "has no input 'cache_0'; did you mean 'caches"),
        ({"states": {"caches_0": 1}}, "'caches_1' of the program is none of token, position and"),
        (
            {"states": STATES, "token": "position"},
            "'position' of the program is several of|'token'",
        ),
        ({"states": {"caches_0": 1, "caches_1": 9}}, "'caches_1' is output 9; expected 0 to 2"),
        (
            {"states": {"caches_0": 1, "caches_1": 1}},
            r"outputs \[0, 1, 1\] of logits and states are",
        ),
    ],
)
def test_names_that_do_not_fit_the_program_are_refused(given, words):
    with pytest.raises(UsageError, match=words):
        from_exported(exported("index_copy"), **given)
